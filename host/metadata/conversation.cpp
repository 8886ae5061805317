#include "host/metadata/conversation.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "host/metadata/frame.h"
#include "lib/text/base64.h"

namespace triton::metadata {

namespace {

constexpr std::string_view blanks = " \t\r\n";

std::string_view without_blanks(std::string_view text) {
    std::size_t const begin = std::min(text.find_first_not_of(blanks), text.size());
    text.remove_prefix(begin);
    return text.substr(0, text.find_last_not_of(blanks) + 1);
}

/// An answer in terms of neither version.
struct Answer {
    std::string word;
    std::string payload = {};
};

Answer failure(Error const& error) { return {"FAILURE", error.text()}; }

Answer on_get(Answers& answers, std::string_view key) {
    auto value = answers.get(without_blanks(key));
    if (!value) return failure(value.error());
    return *value ? Answer{"SUCCESS", **std::move(value)} : Answer{"NOTFOUND"};
}

Answer on_keys(Answers& answers, std::string_view /*payload*/) {
    auto const keys = answers.keys();
    if (!keys) return failure(keys.error());
    Answer answer{"SUCCESS"};
    for (std::string const& key : *keys)
        answer.payload += (answer.payload.empty() ? "" : "\n") + key;
    return answer;
}

Answer done(Result<> const& result) { return result ? Answer{"SUCCESS", "OK"} : failure(result.error()); }

/// Key and value are encoded each on their own, with a blank between them.
Answer on_put(Answers& answers, std::string_view payload) {
    std::size_t const blank = payload.find(' ');
    auto const key = text::decode_base64(payload.substr(0, blank));
    auto const value = text::decode_base64(blank == payload.npos ? "?" : payload.substr(blank + 1));
    if (!key || !value) return {"FAILURE", "PUT has a key and a value, both in base64"};
    return done(answers.put(*key, *value));
}

Answer on_delete(Answers& answers, std::string_view key) { return done(answers.remove(without_blanks(key))); }

struct Request {
    std::string_view word;
    Answer (*run)(Answers& answers, std::string_view payload);
    bool needs_payload;
    bool is_in_first_version;
};
constexpr std::array<Request, 4> requests{{
    {"GET", on_get, true, true},
    {"KEYS", on_keys, false, true},
    {"PUT", on_put, true, false},
    {"DELETE", on_delete, true, false},
}};

Request const* find_request(std::string_view word) {
    for (Request const& request : requests)
        if (request.word == word) return &request;
    return nullptr;
}

/// A line that begins with a dot gets a second one, because a dot alone is the end.
std::string text_of_first_version(Answer const& answer) {
    if (answer.word != "SUCCESS") return answer.word + "\n";
    std::string text = "SUCCESS\n";
    bool is_at_start = true;
    for (char const c : answer.payload) {
        if (is_at_start && c == '.') text += '.';
        text += c;
        is_at_start = c == '\n';
    }
    return text + "\n.\n";
}

}  // namespace

std::string Conversation::take(std::string_view bytes) {
    std::string out;
    while (!is_over_ && !bytes.empty()) {
        std::size_t const end = bytes.find('\n');
        std::string_view const piece = bytes.substr(0, end);
        if (rest_.size() + piece.size() > longest_line) {
            is_over_ = true;
            break;
        }
        rest_ += piece;
        if (end == bytes.npos) break;
        bytes.remove_prefix(end + 1);
        out += answer(std::exchange(rest_, {}));
    }
    return out;
}

std::string Conversation::answer(std::string_view line) {
    static constexpr std::string_view invalid = "invalid command\n";
    line = without_blanks(line);
    std::size_t const blank = std::min(line.find_first_of(blanks), line.size());
    std::string_view const word = line.substr(0, blank);
    std::string_view const argument = without_blanks(line.substr(blank));
    if (word == "V2") return answer_frame(argument);
    if (word == "NEGOTIATE")
        return argument == "V2" ? "V2_OK\n" : argument.empty() ? std::string(invalid) : "FAILURE\n";
    Request const* const request = find_request(word);
    if (!request || !request->is_in_first_version || (request->needs_payload && argument.empty()))
        return std::string(invalid);
    return text_of_first_version(request->run(answers_, argument));
}

std::string Conversation::answer_frame(std::string_view text) {
    auto const frame = parse_frame(text);
    if (!frame) return {};
    Request const* const request = find_request(frame->word);
    Answer answer{"FAILURE", "there is no request " + frame->word};
    if (request && request->needs_payload && without_blanks(frame->payload).empty())
        answer.payload = frame->word + " needs a key";
    else if (request)
        answer = request->run(answers_, frame->payload);
    return frame_line({frame->id, std::move(answer.word), std::move(answer.payload)});
}

}  // namespace triton::metadata

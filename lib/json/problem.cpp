#include "lib/json/problem.h"

#include <utility>

namespace triton::json {

std::string Problem::text() const {
    std::string text = file.empty() ? std::string() : file + ": ";
    if (!where.empty()) text.append(where).append(": ");
    return text += reason;
}

void ProblemList::add(std::string where, std::string reason) {
    if (has_room()) {
        problems_.push_back({std::move(where), std::move(reason)});
    } else {
        ++left_out_;
    }
}

void ProblemList::add(Where const& where, std::string reason) {
    add(has_room() ? where.text() : std::string(), std::move(reason));
}

void ProblemList::add_key(Where const& where, std::string_view key, std::string reason) {
    bool const is_kept = has_room();
    add(where, std::move(reason));
    if (is_kept) problems_.back().key = key;
}

Problems ProblemList::take() && {
    if (left_out_ > 0) problems_.push_back({"", "and " + std::to_string(left_out_) + " more"});
    return std::move(problems_);
}

}  // namespace triton::json

#include "launcher/terminal/screen_modes.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace triton::launcher {

namespace {

struct Mode {
    std::uint16_t number;
    bool is_private;         // ESC [ ? number h, and not ESC [ number h
    bool is_on = false;      // before anybody switches it
    bool is_screen = false;  // another screen: the last to be left, the first to be entered
};

constexpr Mode modes[] = {
    {1, true},                  // cursor keys for applications
    {5, true},                  // reverse video
    {6, true},                  // origin at the margins
    {7, true, true},            // wrap at the right edge
    {8, true, true},            // keys that repeat
    {9, true},                  // mouse: X10
    {12, true},                 // cursor that blinks
    {25, true, true},           // cursor
    {47, true, false, true},    // the other screen
    {66, true},                 // keypad for applications
    {69, true},                 // margins at the left and the right
    {1000, true},               // mouse: buttons
    {1001, true},               // mouse: highlighting
    {1002, true},               // mouse: motion with a button
    {1003, true},               // mouse: all motion
    {1004, true},               // focus
    {1005, true},               // mouse: coordinates as UTF-8
    {1006, true},               // mouse: coordinates as digits
    {1007, true},               // wheel as cursor keys
    {1015, true},               // mouse: coordinates as urxvt has them
    {1016, true},               // mouse: pixels
    {1047, true, false, true},  // the other screen
    {1049, true, false, true},  // the other screen, and the cursor's place on this one
    {2004, true},               // bracketed paste
    {2026, true},               // nothing is shown until it is complete
    {2031, true},               // reports of dark and light
    {2048, true},               // reports of the size
    {9001, true},               // keys as Windows has them
    {2, false},                 // keyboard that is locked
    {4, false},                 // insert
    {20, false},                // newline: also to the first column
};
static_assert(std::size(modes) <= 32, "a bit set of the rows is an uint32_t");

template <class Is>
constexpr std::uint32_t rows_that(Is const& is) {
    std::uint32_t rows = 0;
    for (std::size_t i = 0; i < std::size(modes); ++i)
        if (is(modes[i])) rows |= std::uint32_t{1} << i;
    return rows;
}

constexpr std::uint32_t private_rows = rows_that([](Mode const& mode) { return mode.is_private; });
constexpr std::uint32_t on_at_first = rows_that([](Mode const& mode) { return mode.is_on; });
constexpr std::uint32_t screen_rows = rows_that([](Mode const& mode) { return mode.is_screen; });
constexpr std::uint32_t screen_with_cursor = rows_that([](Mode const& mode) { return mode.number == 1049; });

constexpr char escape_byte = '\033';
constexpr char shift_out = '\016';
constexpr char shift_in = '\017';
constexpr char cancel = '\030';
constexpr char substitute = '\032';

bool is_control_character(char byte) { return static_cast<unsigned char>(byte) < ' '; }
bool is_c1(char second_byte) { return (static_cast<unsigned char>(second_byte) & 0xe0U) == 0x80U; }
bool is_intermediate(char byte) { return byte >= ' ' && byte <= '/'; }

template <class Number>
Number limited(std::uint32_t number) {
    return static_cast<Number>(std::min<std::uint32_t>(number, std::numeric_limits<Number>::max()));
}

/// Those of these rows that are screens, or those that are not, in their order.
std::string switch_text(std::uint32_t rows, bool is_undone) {
    std::string text;
    for (std::size_t i = 0; i < std::size(modes); ++i) {
        if ((rows >> i & 1) == 0) continue;
        text += modes[i].is_private ? "\033[?" : "\033[";
        text += std::to_string(modes[i].number) + (modes[i].is_on == is_undone ? 'h' : 'l');
    }
    return text;
}

}  // namespace

void ScreenModes::sent(std::string_view bytes) {
    while (!bytes.empty()) {
        if (at_ == At::text && !is_after_c2_) {  // most of it
            auto const* const begin = std::ranges::find_if(bytes, [](char byte) {
                return byte == escape_byte || byte == '\xc2' || byte == shift_out || byte == shift_in;
            });
            bytes.remove_prefix(static_cast<std::size_t>(begin - bytes.begin()));
            if (bytes.empty()) return;
        }
        take(bytes.front());
        bytes.remove_prefix(1);
    }
}

void ScreenModes::take(char byte) {
    if (std::exchange(is_after_c2_, byte == '\xc2') && is_c1(byte)) {
        take_escape(static_cast<char>(byte - 0x40));  // the same control as two characters of ASCII
        return;
    }
    if (byte == escape_byte || byte == cancel || byte == substitute) {  // they end whatever has begun
        is_in_string_ = false;
        at_ = byte == escape_byte ? At::escape : At::text;
        return;
    }
    switch (at_) {
        case At::text:
            if (byte == shift_out || byte == shift_in) is_shifted_ = byte == shift_out;
            return;
        case At::escape:
            if (!is_control_character(byte)) take_escape(byte);  // they act in the middle of a sequence
            return;
        case At::designation: return take_designation(byte);
        case At::control: return take_control(byte);
        case At::command:
            if (byte != '\a') return;
            is_in_string_ = false;
            at_ = At::text;
            return;
        case At::string:
            if (byte == '\a') at_ = At::text;  // but xterm waits for another end
            return;
    }
}

void ScreenModes::take_escape(char byte) {
    at_ = At::text;
    switch (byte) {
        case '[':
            at_ = At::control;
            control_ = {};
            return;
        case ']':
            at_ = At::command;
            is_in_string_ = true;
            return;
        case 'P':
        case 'X':
        case '^':
        case '_':
            at_ = At::string;
            is_in_string_ = true;
            return;
        case '=':
        case '>': has_keypad_ = byte == '='; return;
        case 'n':
        case 'o': is_shifted_ = true; return;
        case 'c': *this = {}; return;  // the terminal has been reset
        default: break;
    }
    if (!is_intermediate(byte)) return;
    at_ = At::designation;
    intermediate_ = byte;
}

void ScreenModes::take_designation(char byte) {
    if (is_control_character(byte) || is_intermediate(byte)) return;
    if (intermediate_ == '(') has_charset_ = byte != 'B';
    if (intermediate_ == '%') has_encoding_ = byte == '@';
    at_ = At::text;
}

void ScreenModes::take_control(char byte) {
    if (is_control_character(byte) || byte == '\177') return;
    if (byte >= '@' && byte <= '~') {
        at_ = At::text;
        end_number();
        if (!control_.is_odd) act(byte);
        return;
    }
    bool const is_first = control_.count == 0 && !control_.has_digit && control_.prefix == '\0';
    if (is_intermediate(byte) && control_.intermediate == '\0') {
        control_.intermediate = byte;
    } else if (control_.intermediate != '\0') {
        control_.is_odd = true;
    } else if (byte >= '0' && byte <= '9') {
        control_.has_digit = true;
        control_.is_all_zero &= byte == '0';
        control_.number = limited<std::uint16_t>(control_.number * 10U + static_cast<std::uint32_t>(byte - '0'));
    } else if (byte == ';') {
        end_number();
    } else if (byte >= '<' && byte <= '?' && is_first) {
        control_.prefix = byte;
    } else if (byte == ':') {  // parts of a colour
        control_.is_all_zero = false;
    } else {
        control_.is_odd = true;
    }
}

void ScreenModes::end_number() {
    std::uint16_t const number = std::exchange(control_.number, std::uint16_t{0});
    if (control_.count < control_.first.size()) control_.first[control_.count] = number;
    control_.count = limited<std::uint8_t>(control_.count + 1U);
    if (number != 0) control_.named |= rows_that([number](Mode const& mode) { return mode.number == number; });
}

/// A control sequence is complete.
void ScreenModes::act(char final) {
    auto const [first, second] = control_.first;
    if (control_.intermediate == ' ' && final == 'q' && control_.prefix == '\0')
        cursor_style_ = limited<std::uint8_t>(first);
    if (control_.intermediate != '\0') return;
    bool const is_private = control_.prefix == '?';
    bool const is_plain = control_.prefix == '\0';
    std::uint32_t const rows = control_.named & (is_private ? private_rows : ~private_rows);
    switch (final) {
        case 'h':
            if (is_private || is_plain) set_modes(rows, ~on_at_first);
            return;
        case 'l':
            if (is_private || is_plain) set_modes(rows, on_at_first);
            return;
        case 's':
            if (is_private) saved_ = (saved_ & ~rows) | (changed_ & rows);
            return;
        case 'r':
            if (is_private) set_modes(rows, saved_);
            if (is_plain) has_margins_ = !control_.is_all_zero;
            return;
        case 'm':
            if (is_plain) has_colours_ = !control_.is_all_zero;
            if (control_.prefix == '>' && first == 4) key_detail_ = limited<std::uint8_t>(second);
            return;
        case 'n':
            if (control_.prefix == '>' && first == 4) key_detail_ = 0;
            return;
        case 'u': return set_keys(keys_[(changed_ & screen_rows) != 0 ? 1 : 0]);
        default: return;
    }
}

void ScreenModes::set_modes(std::uint32_t rows, std::uint32_t changed) {
    changed_ = (changed_ & ~rows) | (changed & rows);
    if ((rows & screen_rows & ~changed) == 0) return;
    changed_ &= ~screen_rows;  // it is one and the same, by whatever number it was entered
    keys_[1] = {};
}

/// kitty's: > puts flags on a stack, < takes some off, = changes the topmost.
void ScreenModes::set_keys(Keys& keys) {
    auto const flags = limited<std::uint8_t>(control_.first[0]);
    switch (control_.prefix) {
        case '>':
            keys.pushed = limited<std::uint16_t>(keys.pushed + 1U);
            if (keys.known == keys.flags.size())
                std::ranges::move(keys.flags.begin() + 1, keys.flags.end(), keys.flags.begin());
            else
                ++keys.known;
            keys.flags[keys.known - 1U] = flags;
            return;
        case '<': {
            std::uint16_t const wanted = control_.has_digit ? control_.first[0] : 1;
            keys.known = static_cast<std::uint8_t>(keys.known - std::min<std::uint16_t>(keys.known, wanted));
            keys.pushed = static_cast<std::uint16_t>(keys.pushed - std::min(keys.pushed, wanted));
            return;
        }
        case '=': {
            std::uint8_t& top = keys.known > 0 ? keys.flags[keys.known - 1U] : keys.bottom;
            switch (control_.first[1]) {
                case 2: top |= flags; return;
                case 3: top &= static_cast<std::uint8_t>(~flags); return;
                default: top = flags; return;
            }
        }
        default: return;
    }
}

std::string ScreenModes::Keys::undo() const {
    std::string text;
    if (pushed > 0) text += "\033[<" + std::to_string(pushed) + 'u';
    if (bottom != 0) text += "\033[=0u";
    return text;
}

std::string ScreenModes::Keys::redo() const {
    std::string text;
    if (bottom != 0) text += "\033[=" + std::to_string(bottom) + 'u';
    for (std::size_t i = 0; i < known; ++i)
        text += "\033[>" + std::to_string(flags[i]) + 'u';
    return text;
}

std::string ScreenModes::undo() const {
    std::string text;
    if (at_ != At::text || is_in_string_) text += "\033\\";  // ends whatever is half sent
    text += keys_[1].undo();
    if (key_detail_ != 0) text += "\033[>4m";
    // It moves the cursor, which some screens bring back themselves.
    if (has_margins_) text += (changed_ & screen_with_cursor) != 0 ? "\033[r" : "\0337\033[r\0338";
    text += switch_text(changed_ & ~screen_rows, true);
    if (has_keypad_) text += "\033>";
    if (is_shifted_) text += shift_in;
    if (has_charset_) text += "\033(B";
    if (has_encoding_) text += "\033%G";
    if (cursor_style_ != 0) text += "\033[0 q";
    text += switch_text(changed_ & screen_rows, true);
    text += keys_[0].undo();
    if (has_colours_) text += "\033[m";
    return text;
}

std::string ScreenModes::screen() const { return switch_text(changed_ & screen_rows, false); }

std::string ScreenModes::redo() const {
    std::string text = keys_[0].redo() + screen() + switch_text(changed_ & ~screen_rows, false);
    if (has_keypad_) text += "\033=";
    if (cursor_style_ != 0) text += "\033[" + std::to_string(cursor_style_) + " q";
    if (key_detail_ != 0) text += "\033[>4;" + std::to_string(key_detail_) + 'm';
    return text + keys_[1].redo();
}

}  // namespace triton::launcher

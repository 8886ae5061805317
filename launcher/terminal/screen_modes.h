#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace triton::launcher {

/// What a program has switched on a terminal by escape sequences, and how it is put back when the program does not do
/// it: other screens, mouse reports, bracketed paste, keys in another form, a hidden cursor, colours, margins. Titles,
/// palettes and what is drawn stay. Terminals differ in what they understand: where one may have been switched, it is
/// put back. A program that wants to can do more to a terminal than this knows.
///
/// It takes a fixed amount of memory and of work for each byte, whatever the program sends.
/// Source: ECMA-48, xterm's ctlseqs, kitty's "Comprehensive keyboard handling in terminals".
class ScreenModes {
public:
    /// Bytes that a terminal has been sent. A sequence may be spread over several calls.
    void sent(std::string_view bytes);
    /// What brings it back to how it was before them: nothing where nothing has been switched, so that a program that
    /// tidies up after itself has the last word.
    [[nodiscard]] std::string undo() const;
    /// What brings it from there to how it is now, but for what a program that draws sets each time: margins, colours,
    /// character sets.
    [[nodiscard]] std::string redo() const;
    /// Of that, what brings it to another screen; empty: it shows the first one.
    [[nodiscard]] std::string screen() const;

private:
    /// Where in a sequence we are.
    enum class At : std::uint8_t {
        text,
        escape,       // ESC
        designation,  // ESC and an intermediate byte, as in ESC ( B
        control,      // ESC [
        command,      // ESC ], until BEL, or ESC and a backslash
        string        // ESC P and its like, until ESC and a backslash
    };

    /// What follows ESC [ so far. Of numbers without end two are kept, and which of the modes they name.
    struct Control {
        char prefix = '\0';        // one of <=>?
        char intermediate = '\0';  // before the last byte
        bool is_odd = false;       // of a form that nobody understands
        bool is_all_zero = true;   // its numbers
        bool has_digit = false;
        std::uint8_t count = 0;    // of the numbers before the last one
        std::uint16_t number = 0;  // the last one
        std::array<std::uint16_t, 2> first{};
        std::uint32_t named = 0;  // rows of the table
    };

    /// kitty's flags of one of the screens. Of those that are pushed we know the topmost.
    struct Keys {
        std::uint8_t bottom = 0;
        std::uint8_t known = 0;
        std::uint16_t pushed = 0;
        std::array<std::uint8_t, 8> flags{};  // as many as kitty itself has

        [[nodiscard]] std::string undo() const;
        [[nodiscard]] std::string redo() const;
    };

    void take(char byte);
    void take_escape(char byte);
    void take_designation(char byte);
    void take_control(char byte);
    void end_number();
    void act(char final);
    void set_modes(std::uint32_t rows, std::uint32_t changed);
    void set_keys(Keys& keys);

    At at_ = At::text;
    bool is_in_string_ = false;  // for some terminals, whatever it is for others
    bool is_after_c2_ = false;   // the first byte of U+0080 to U+009F in UTF-8, of which some terminals make controls
    char intermediate_ = '\0';   // of At::designation
    Control control_;
    std::uint32_t changed_ = 0;  // a bit for each row of the table that is not as it was
    std::uint32_t saved_ = 0;    // the same, of when the program had them saved
    bool has_keypad_ = false;    // ESC =
    bool has_charset_ = false;   // ESC ( with another than B: lines that are drawn by letters
    bool has_encoding_ = false;  // ESC % @: another than UTF-8
    bool is_shifted_ = false;    // SO: another character set
    bool has_margins_ = false;
    bool has_colours_ = false;
    std::uint8_t cursor_style_ = 0;
    std::uint8_t key_detail_ = 0;  // xterm's modifyOtherKeys
    std::array<Keys, 2> keys_;     // on the first screen, and on the other
};

}  // namespace triton::launcher

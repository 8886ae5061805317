#include "tests/unit/lib/varlink/varlink_interface.h"

#include <cctype>

#include <gtest/gtest.h>

#include "lib/varlink/codec.h"

namespace triton::test {

namespace {

class Parser {
public:
    explicit Parser(std::string_view text) : rest_(text) { next(); }

    VarlinkInterface interface() {
        VarlinkInterface result;
        expect("interface");
        result.name = take();
        while (!token_.empty() && !::testing::Test::HasFailure()) {
            std::string const kind = take();
            std::string const name = take();
            EXPECT_FALSE(name.empty());
            if (kind == "type") {
                EXPECT_TRUE(result.types.emplace(name, type()).second) << name << " is given twice";
            } else if (kind == "error") {
                EXPECT_TRUE(result.errors.emplace(name, type()).second) << name << " is given twice";
            } else if (kind == "method") {
                VarlinkType const in = type();
                expect("->");
                EXPECT_TRUE(result.methods.emplace(name, VarlinkInterface::Method{in, type()}).second) << name;
            } else {
                ADD_FAILURE() << "unknown member " << kind;
            }
        }
        return result;
    }

private:
    VarlinkType type() {
        VarlinkType result;
        result.is_optional = skip("?");
        result.is_array = skip("[]");
        if (!result.is_array && skip("[")) {
            expect("string");
            expect("]");
            result.is_map = true;
        }
        if (!skip("(")) {
            result.name = take();
            return result;
        }
        while (!skip(")") && !::testing::Test::HasFailure()) {
            std::string const name = take();
            if (skip(":")) {
                EXPECT_TRUE(result.fields.emplace(name, type()).second) << name << " is given twice";
            } else {
                result.words.insert(name);
            }
            if (token_ != ")") expect(",");
        }
        return result;
    }

    std::string take() {
        std::string const token(token_);
        next();
        return token;
    }
    bool skip(std::string_view token) {
        if (token_ != token) return false;
        next();
        return true;
    }
    void expect(std::string_view token) { EXPECT_EQ(take(), token) << "before: " << rest_.substr(0, 60); }

    void next() {
        for (;;) {
            while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())))
                rest_.remove_prefix(1);
            if (!rest_.starts_with('#')) break;
            rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
        }
        auto const is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
        std::size_t size = 0;
        while (size < rest_.size() && is_word(rest_[size]))
            ++size;
        if (size == 0)
            size = rest_.starts_with("->") || rest_.starts_with("[]") ? 2 : std::min<std::size_t>(1, rest_.size());
        token_ = rest_.substr(0, size);
        rest_.remove_prefix(size);
    }

    std::string_view rest_;
    std::string_view token_;
};

bool is_simple(std::string const& name, json::Node const& value) {
    if (name == "int") return value.get<std::int64_t>();
    if (name == "bool") return value.get<bool>();
    if (name == "float") return value.get<json::OddNumber>() || value.get<std::int64_t>();
    if (name == "string") return value.get<std::string>();
    return name == "object" && value.get<json::Object>();
}

}  // namespace

VarlinkInterface parse_interface(std::string_view text) { return Parser(text).interface(); }

std::string mismatch(VarlinkInterface const& interface, VarlinkType const& type, json::Object const& object) {
    for (json::Member const& member : object) {
        auto const field = type.fields.find(member.key);
        if (field == type.fields.end()) return member.key + " is not declared";
        std::string const reason = mismatch(interface, field->second, member.node);
        if (!reason.empty()) return member.key + ": " + reason;
    }
    for (auto const& [name, field] : type.fields) {
        if (!field.is_optional && !varlink::find_member(object, name)) return name + " is missing";
    }
    return {};
}

std::string mismatch(VarlinkInterface const& interface, VarlinkType const& type, json::Node const& value) {
    if (value.get<json::Null>()) return type.is_optional ? "" : "null";
    if (type.is_array) {
        auto const* const items = value.get<json::Array>();
        if (!items) return "no array";
        VarlinkType element = type;
        element.is_array = element.is_optional = false;
        for (json::Node const& item : *items) {
            std::string const reason = mismatch(interface, element, item);
            if (!reason.empty()) return reason;
        }
        return {};
    }
    if (type.is_map) {
        auto const* const members = value.get<json::Object>();
        if (!members) return "no map";
        VarlinkType element = type;
        element.is_map = element.is_optional = false;
        for (json::Member const& member : *members) {
            std::string const reason = mismatch(interface, element, member.node);
            if (!reason.empty()) return member.key + ": " + reason;
        }
        return {};
    }
    if (auto const named = interface.types.find(type.name); named != interface.types.end())
        return mismatch(interface, named->second, value);
    if (!type.name.empty()) return is_simple(type.name, value) ? "" : "not of type " + type.name;
    if (!type.words.empty()) {
        auto const* const word = value.get<std::string>();
        return word && type.words.contains(*word) ? "" : "not one of the words";
    }
    auto const* const object = value.get<json::Object>();
    return object ? mismatch(interface, type, *object) : "no object";
}

}  // namespace triton::test

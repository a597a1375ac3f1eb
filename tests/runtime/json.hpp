// A small strict JSON reader, for checking what coir writes. Throws std::runtime_error for whatever RFC 8259 does not
// allow; \u escapes up to U+00FF become one char.
#pragma once

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace runtime_test {

class json {
 public:
  static json parse(const std::string& text) {
    reader r{text};
    json value = r.value();
    r.blanks();
    if (r.at != text.size()) r.fail("something after the value");
    return value;
  }

  double number() const { return std::get<double>(value_); }
  const std::string& string() const { return std::get<std::string>(value_); }
  const std::vector<json>& array() const { return std::get<std::vector<json>>(value_); }
  const json& at(const std::string& key) const {
    const auto& members = std::get<std::map<std::string, json>>(value_);
    const auto found = members.find(key);
    if (found == members.end()) throw std::runtime_error("json: no member " + key);
    return found->second;
  }

 private:
  struct reader {
    const std::string& text;
    std::size_t at = 0;

    [[noreturn]] void fail(const std::string& what) const {
      throw std::runtime_error("json: " + what + " at " + std::to_string(at) + ": " +
                               text.substr(at > 60 ? at - 60 : 0, 120));
    }
    void blanks() {
      while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) ++at;
    }
    char peek() const {
      if (at >= text.size()) fail("the end comes too early");
      return text[at];
    }
    void expect(char c) {
      if (peek() != c) fail(std::string("no ") + c);
      ++at;
    }

    json value() {
      blanks();
      json result;
      switch (peek()) {
        case '{':
          result.value_ = object();
          break;
        case '[':
          result.value_ = array();
          break;
        case '"':
          result.value_ = string();
          break;
        default:
          result.value_ = number();
      }
      return result;
    }

    std::map<std::string, json> object() {
      std::map<std::string, json> members;
      expect('{');
      blanks();
      if (peek() == '}') {
        ++at;
        return members;
      }
      for (;;) {
        blanks();
        std::string key = string();
        blanks();
        expect(':');
        if (!members.emplace(std::move(key), value()).second) fail("a member twice");
        blanks();
        if (peek() == '}') break;
        expect(',');
      }
      ++at;
      return members;
    }

    std::vector<json> array() {
      std::vector<json> elements;
      expect('[');
      blanks();
      if (peek() == ']') {
        ++at;
        return elements;
      }
      for (;;) {
        elements.push_back(value());
        blanks();
        if (peek() == ']') break;
        expect(',');
      }
      ++at;
      return elements;
    }

    std::string string() {
      std::string s;
      for (expect('"'); peek() != '"'; ++at) {
        if (static_cast<unsigned char>(text[at]) < 0x20) fail("a control character");
        if (text[at] != '\\') {
          s += text[at];
          continue;
        }
        ++at;
        if (peek() == '"' || peek() == '\\' || peek() == '/') {
          s += text[at];
        } else if (peek() == 'u') {
          const std::string digits = text.substr(at + 1, 4);
          if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
            fail("a bad escape");
          s += static_cast<char>(std::strtoul(digits.c_str(), nullptr, 16));
          at += 4;
        } else {
          fail("an unknown escape");
        }
      }
      ++at;
      return s;
    }

    double number() {
      const std::size_t begin = at;
      const auto digits = [this] {
        const std::size_t first = at;
        while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
        if (at == first) fail("no digit");
      };
      if (peek() == '-') ++at;
      const std::size_t first = at;
      digits();
      if (text[first] == '0' && at - first > 1) fail("a leading zero");
      if (at < text.size() && text[at] == '.') {
        ++at;
        digits();
      }
      return std::strtod(text.substr(begin, at - begin).c_str(), nullptr);
    }
  };

  std::variant<double, std::string, std::vector<json>, std::map<std::string, json>> value_;
};

}  // namespace runtime_test

// SHA-256 of byte sequences (FIPS 180-4), lower-case hexadecimal. OpenSSL does the work.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ida {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&& other) noexcept;
  Sha256& operator=(Sha256&& other) noexcept;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  // 64 hexadecimal digits of everything updated so far; ends the computation: update() after it is a bug of the caller.
  std::string hex();

 private:
  void* context_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace ida

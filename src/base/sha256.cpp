#include "base/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cassert>
#include <utility>

#include "base/error.h"

namespace ida {
namespace {

EVP_MD_CTX* as_context(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr || EVP_DigestInit_ex(as_context(context_), EVP_sha256(), nullptr) != 1) {
    EVP_MD_CTX_free(as_context(context_));
    fail_runtime("SHA-256: OpenSSL could not start a digest");
  }
}

Sha256::~Sha256() { EVP_MD_CTX_free(as_context(context_)); }

Sha256::Sha256(Sha256&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}

Sha256& Sha256::operator=(Sha256&& other) noexcept {
  std::swap(context_, other.context_);
  return *this;
}

void Sha256::update(std::span<const std::byte> bytes) {
  assert(context_ != nullptr);
  if (EVP_DigestUpdate(as_context(context_), bytes.data(), bytes.size()) != 1) {
    fail_runtime("SHA-256: OpenSSL could not hash {} bytes", bytes.size());
  }
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

std::string Sha256::hex() {
  assert(context_ != nullptr);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_DigestFinal_ex(as_context(context_), digest.data(), &size) != 1) {
    fail_runtime("SHA-256: OpenSSL could not finish a digest");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text.data(), text.size()))); }

}  // namespace ida

// kael/cxx/error.hpp: failed calls as exceptions.
#ifndef KAEL_CXX_ERROR_HPP
#define KAEL_CXX_ERROR_HPP

#include <stdexcept>
#include <string>

#include "kael/error.h"

namespace kael {

/// What every failing call throws: the library's code and its message.
class Error : public std::runtime_error {
 public:
  Error(kael_status code, const std::string &message) : std::runtime_error(message), code_(code) {}
  kael_status code() const noexcept { return code_; }

 private:
  kael_status code_;
};

namespace detail {

/// Moves the thread's stored error into an exception. `code` counts where nothing is stored.
[[noreturn]] inline void throw_last_error(kael_status code) {
  kael_error stored = kael_last_error();
  Error error = stored.code == KAEL_OK ? Error(code, kael_status_name(code))
                                       : Error(stored.code, stored.message);
  kael_clear_error();
  throw error;
}

inline void check(kael_status status) {
  if (status != KAEL_OK) throw_last_error(status);
}

}  // namespace detail
}  // namespace kael
#endif

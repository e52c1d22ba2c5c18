#pragma once

#include <atomic>
#include <cstdint>

namespace viaduct {

/// The file descriptors of held ports (ports::PortHolder). Of the whole process, as its limit of descriptors
/// is: the relay counts them, so that it does not plan with what they take. Any thread.
inline std::atomic<uint32_t> held_descriptors = 0;

}  // namespace viaduct

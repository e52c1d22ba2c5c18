#include <malloc.h>
#include <napi.h>

#include <limits>

#include "binding/arguments.h"
#include "binding/conntrack_socket_wrap.h"
#include "binding/ipset_socket_wrap.h"
#include "binding/ipvs_socket_wrap.h"
#include "binding/kernel_look_wrap.h"
#include "binding/layout.h"
#include "binding/listener_socket_wrap.h"
#include "binding/look_watch_wrap.h"
#include "binding/network_namespace_wrap.h"
#include "binding/nft_events_wrap.h"
#include "binding/nft_socket_wrap.h"
#include "binding/nft_tables_wrap.h"
#include "binding/port_holder_wrap.h"
#include "binding/relay_wrap.h"
#include "binding/route_events_wrap.h"
#include "binding/route_socket_wrap.h"
#include "binding/values.h"
#include "binding/xtables_wrap.h"
#include "nftables/object_codec.h"
#include "system/kernel_clock.h"
#include "system/peer_credentials.h"
#include "system/service_manager.h"

namespace viaduct::binding {

namespace {

/// A read of the kernel needs megabytes for a moment, on any thread of the pool. glibc raises its threshold
/// for large allocations from 128 KiB up to 32 MiB and then keeps freed memory per thread, some 20 MB in all.
/// Fixed limits return large allocations to the system.
void GiveFreedMemoryBack() {
#ifdef __GLIBC__
  constexpr int kLargeBytes = 128 * 1024;
  mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  mallopt(M_TRIM_THRESHOLD, 8 * kLargeBytes);
#endif
}

}  // namespace

/// The module's state in one environment. src/kernel/addon.ts declares the exports.
class Addon : public Napi::Addon<Addon> {
 public:
  Addon(Napi::Env env, Napi::Object exports) {
    GiveFreedMemoryBack();
    DefineAddon(
        exports,
        {InstanceValue("IpvsSocket", IpvsSocketWrap::Define(env), napi_enumerable),
         InstanceValue("RouteSocket", RouteSocketWrap::Define(env), napi_enumerable),
         InstanceValue("RouteEvents", RouteEventsWrap::Define(env), napi_enumerable),
         InstanceValue("ConntrackSocket", ConntrackSocketWrap::Define(env), napi_enumerable),
         InstanceValue("IpsetSocket", IpsetSocketWrap::Define(env), napi_enumerable),
         InstanceValue("NftSocket", NftSocketWrap::Define(env), napi_enumerable),
         InstanceValue("NftTables", NftTablesWrap::Define(env), napi_enumerable),
         InstanceValue("NftEvents", NftEventsWrap::Define(env), napi_enumerable),
         InstanceValue("KernelLook", KernelLookWrap::Define(env), napi_enumerable),
         InstanceValue("LookWatch", LookWatchWrap::Define(env), napi_enumerable),
         InstanceValue("Relay", RelayWrap::Define(env), napi_enumerable),
         InstanceValue("XtablesTable", XtablesWrap::Define(env), napi_enumerable),
         InstanceValue("PortHolder", PortHolderWrap::Define(env), napi_enumerable),
         InstanceValue("ListenerSocket", ListenerSocketWrap::Define(env), napi_enumerable),
         InstanceValue("NetworkNamespace", NetworkNamespaceWrap::Define(env), napi_enumerable),
         InstanceMethod<&Addon::NotifyServiceManager>("notifyServiceManager", napi_enumerable),
         InstanceMethod<&Addon::PeerCredentials>("peerCredentials", napi_enumerable),
         InstanceMethod<&Addon::ClockStatus>("clockStatus", napi_enumerable),
         InstanceValue("layout", MakeLayout(env), napi_enumerable),
         InstanceValue("nftGrammar", Napi::String::New(env, nftables::DescribeGrammar()), napi_enumerable)});
  }

 private:
  void NotifyServiceManager(const Napi::CallbackInfo& info) {
    constexpr size_t kLongest = 4096;
    const Arguments arguments(info,
                              {Parameter::Text("socket", kLongest), Parameter::Text("state", kLongest)});
    const Status status = system::NotifyServiceManager(arguments.Text(0), arguments.Text(1));
    if (!status.ok()) throw MakeError(info.Env(), status.error());
  }

  Napi::Value ClockStatus(const Napi::CallbackInfo& info) {
    const auto status = system::ReadClockStatus();
    if (!status.ok()) throw MakeError(info.Env(), status.error());
    return Napi::Number::New(info.Env(), status.value());
  }

  Napi::Value PeerCredentials(const Napi::CallbackInfo& info) {
    constexpr uint32_t kLargestFd = std::numeric_limits<int>::max();
    const Arguments arguments(info, {Parameter::U32("fd", kLargestFd)});
    const auto peer = system::ReadPeerCredentials(static_cast<int>(arguments.U32(0)));
    if (!peer.ok()) throw MakeError(info.Env(), peer.error());
    auto result = Napi::Object::New(info.Env());
    result.Set("pid", peer.value().pid);
    result.Set("uid", peer.value().uid);
    return result;
  }
};

}  // namespace viaduct::binding

using viaduct::binding::Addon;
NODE_API_ADDON(Addon)

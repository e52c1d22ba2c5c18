#include "binding/layout.h"

#include <cstddef>
#include <initializer_list>

#include "binding/values.h"
#include "conntrack/record.h"
#include "ipvs/record.h"
#include "route/record.h"

namespace viaduct::binding {

namespace {

struct Field {
  const char* name;
  size_t offset;
};

Napi::Object MakeRecord(Napi::Env env, size_t size, std::initializer_list<Field> fields) {
  auto record = Napi::Object::New(env);
  record.Set("size", Napi::Number::New(env, static_cast<double>(size)));
  for (const Field& field : fields)
    record.Set(field.name, Napi::Number::New(env, static_cast<double>(field.offset)));
  return record;
}

Napi::Object VirtualServer(Napi::Env env) {
  using R = ipvs::VirtualServerRecord;
  return MakeRecord(env, sizeof(R),
                    {{"address", offsetof(R, address)},
                     {"scheduler", offsetof(R, scheduler)},
                     {"mark", offsetof(R, mark)},
                     {"flags", offsetof(R, flags)},
                     {"flagsMask", offsetof(R, flags_mask)},
                     {"timeoutSeconds", offsetof(R, timeout_seconds)},
                     {"firstReal", offsetof(R, first_real)},
                     {"realCount", offsetof(R, real_count)},
                     {"port", offsetof(R, port)},
                     {"family", offsetof(R, family)},
                     {"protocol", offsetof(R, protocol)},
                     {"netmaskLength", offsetof(R, netmask_length)}});
}

Napi::Object RealServer(Napi::Env env) {
  using R = ipvs::RealServerRecord;
  return MakeRecord(env, sizeof(R),
                    {{"address", offsetof(R, address)},
                     {"weight", offsetof(R, weight)},
                     {"upperThreshold", offsetof(R, upper_threshold)},
                     {"lowerThreshold", offsetof(R, lower_threshold)},
                     {"port", offsetof(R, port)},
                     {"tunnelPort", offsetof(R, tunnel_port)},
                     {"tunnelFlags", offsetof(R, tunnel_flags)},
                     {"family", offsetof(R, family)},
                     {"forwarding", offsetof(R, forwarding)},
                     {"tunnelType", offsetof(R, tunnel_type)}});
}

Napi::Object Counters(Napi::Env env) {
  using R = ipvs::CountersRecord;
  return MakeRecord(env, sizeof(R),
                    {{"connections", offsetof(R, connections)},
                     {"inPackets", offsetof(R, in_packets)},
                     {"outPackets", offsetof(R, out_packets)},
                     {"inBytes", offsetof(R, in_bytes)},
                     {"outBytes", offsetof(R, out_bytes)},
                     {"activeConnections", offsetof(R, active_connections)},
                     {"inactiveConnections", offsetof(R, inactive_connections)},
                     {"persistentConnections", offsetof(R, persistent_connections)}});
}

Napi::Object Route(Napi::Env env) {
  using R = route::RouteRecord;
  return MakeRecord(env, sizeof(R),
                    {{"destination", offsetof(R, destination)},
                     {"preferredSource", offsetof(R, preferred_source)},
                     {"interfaceIndex", offsetof(R, interface_index)},
                     {"metric", offsetof(R, metric)},
                     {"table", offsetof(R, table)},
                     {"op", offsetof(R, op)},
                     {"family", offsetof(R, family)},
                     {"prefixLength", offsetof(R, prefix_length)},
                     {"protocol", offsetof(R, protocol)},
                     {"type", offsetof(R, type)},
                     {"scope", offsetof(R, scope)}});
}

Napi::Object Address(Napi::Env env) {
  using R = route::AddressRecord;
  return MakeRecord(env, sizeof(R),
                    {{"address", offsetof(R, address)},
                     {"interfaceIndex", offsetof(R, interface_index)},
                     {"flags", offsetof(R, flags)},
                     {"op", offsetof(R, op)},
                     {"family", offsetof(R, family)},
                     {"prefixLength", offsetof(R, prefix_length)},
                     {"scope", offsetof(R, scope)}});
}

Napi::Object Event(Napi::Env env) {
  using R = route::EventRecord;
  return MakeRecord(env, sizeof(R),
                    {{"interfaceIndex", offsetof(R, interface_index)},
                     {"kind", offsetof(R, kind)},
                     {"op", offsetof(R, op)},
                     {"family", offsetof(R, family)},
                     {"prefixLength", offsetof(R, prefix_length)},
                     {"address", offsetof(R, address)},
                     {"name", offsetof(R, name)}});
}

Napi::Object ConntrackFrontend(Napi::Env env) {
  using R = conntrack::FrontendRecord;
  return MakeRecord(env, sizeof(R),
                    {{"address", offsetof(R, address)},
                     {"backendSet", offsetof(R, backend_set)},
                     {"port", offsetof(R, port)},
                     {"protocol", offsetof(R, protocol)},
                     {"isAnyAddress", offsetof(R, is_any_address)}});
}

Napi::Object ConntrackBackend(Napi::Env env) {
  using R = conntrack::BackendRecord;
  return MakeRecord(env, sizeof(R),
                    {{"address", offsetof(R, address)},
                     {"backendSet", offsetof(R, backend_set)},
                     {"port", offsetof(R, port)}});
}

}  // namespace

Napi::Object MakeLayout(Napi::Env env) {
  using ipvs::OpRecord;
  using route::LinkRecord;
  auto layout = Napi::Object::New(env);
  layout.Set("virtualServer", VirtualServer(env));
  layout.Set("realServer", RealServer(env));
  layout.Set("op", MakeRecord(env, sizeof(OpRecord),
                              {{"virtualServer", offsetof(OpRecord, virtual_server)},
                               {"realServer", offsetof(OpRecord, real_server)},
                               {"op", offsetof(OpRecord, op)}}));
  layout.Set("counters", Counters(env));
  layout.Set("route", Route(env));
  layout.Set("address", Address(env));
  layout.Set("link", MakeRecord(env, sizeof(LinkRecord),
                                {{"name", offsetof(LinkRecord, name)},
                                 {"kind", offsetof(LinkRecord, kind)},
                                 {"index", offsetof(LinkRecord, index)},
                                 {"flags", offsetof(LinkRecord, flags)},
                                 {"op", offsetof(LinkRecord, op)}}));
  layout.Set("event", Event(env));
  layout.Set("conntrackFrontend", ConntrackFrontend(env));
  layout.Set("conntrackBackend", ConntrackBackend(env));
  layout.Set("failure", MakeRecord(env, sizeof(FailureRecord),
                                   {{"index", offsetof(FailureRecord, index)},
                                    {"errno", offsetof(FailureRecord, code)},
                                    {"textOffset", offsetof(FailureRecord, text_offset)},
                                    {"textLength", offsetof(FailureRecord, text_length)},
                                    {"unknown", offsetof(FailureRecord, unknown)}}));
  return layout;
}

}  // namespace viaduct::binding

#include "binding/layout.h"

#include <cstddef>
#include <initializer_list>

#include "binding/values.h"
#include "conntrack/record.h"
#include "ipset/record.h"
#include "ipvs/record.h"
#include "route/record.h"
#include "xtables/record.h"

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
                     {"scope", offsetof(R, scope)},
                     {"tos", offsetof(R, tos)}});
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
                     {"isNodePort", offsetof(R, is_node_port)}});
}

Napi::Object ConntrackBackend(Napi::Env env) {
  using R = conntrack::BackendRecord;
  return MakeRecord(env, sizeof(R),
                    {{"address", offsetof(R, address)},
                     {"backendSet", offsetof(R, backend_set)},
                     {"port", offsetof(R, port)}});
}

Napi::Object ConntrackAddress(Napi::Env env) {
  using R = conntrack::AddressRecord;
  return MakeRecord(env, sizeof(R), {{"address", offsetof(R, address)}});
}

Napi::Object IpsetSet(Napi::Env env) {
  using R = ipset::SetRecord;
  return MakeRecord(env, sizeof(R),
                    {{"name", offsetof(R, name)},
                     {"type", offsetof(R, type)},
                     {"maxElements", offsetof(R, max_elements)},
                     {"hashSize", offsetof(R, hash_size)},
                     {"references", offsetof(R, references)},
                     {"elementCount", offsetof(R, element_count)},
                     {"family", offsetof(R, family)},
                     {"extensions", offsetof(R, extensions)}});
}

Napi::Object IpsetEntry(Napi::Env env) {
  using R = ipset::EntryRecord;
  return MakeRecord(env, sizeof(R),
                    {{"address", offsetof(R, address)},
                     {"secondAddress", offsetof(R, second_address)},
                     {"mark", offsetof(R, mark)},
                     {"markMask", offsetof(R, mark_mask)},
                     {"commentOffset", offsetof(R, comment_offset)},
                     {"port", offsetof(R, port)},
                     {"family", offsetof(R, family)},
                     {"protocol", offsetof(R, protocol)},
                     {"prefixLength", offsetof(R, prefix_length)},
                     {"commentLength", offsetof(R, comment_length)},
                     {"isException", offsetof(R, is_exception)}});
}

Napi::Object IpsetOp(Napi::Env env) {
  using R = ipset::OpRecord;
  return MakeRecord(env, sizeof(R),
                    {{"set", offsetof(R, set)}, {"object", offsetof(R, object)}, {"op", offsetof(R, op)}});
}

Napi::Object XtChain(Napi::Env env) {
  using R = xtables::ChainRecord;
  return MakeRecord(env, sizeof(R),
                    {{"name", offsetof(R, name)},
                     {"firstRule", offsetof(R, first_rule)},
                     {"ruleCount", offsetof(R, rule_count)},
                     {"op", offsetof(R, op)}});
}

Napi::Object XtRule(Napi::Env env) {
  using R = xtables::RuleRecord;
  return MakeRecord(env, sizeof(R),
                    {{"source", offsetof(R, source)},
                     {"destination", offsetof(R, destination)},
                     {"natAddress", offsetof(R, nat_address)},
                     {"inInterface", offsetof(R, in_interface)},
                     {"outInterface", offsetof(R, out_interface)},
                     {"comment", offsetof(R, comment)},
                     {"targetChain", offsetof(R, target_chain)},
                     {"recentList", offsetof(R, recent_list)},
                     {"setName", offsetof(R, set_name)},
                     {"markValue", offsetof(R, mark_value)},
                     {"markMask", offsetof(R, mark_mask)},
                     {"targetValue", offsetof(R, target_value)},
                     {"targetMask", offsetof(R, target_mask)},
                     {"probability", offsetof(R, probability)},
                     {"recentSeconds", offsetof(R, recent_seconds)},
                     {"sourcePortFrom", offsetof(R, source_port_from)},
                     {"sourcePortTo", offsetof(R, source_port_to)},
                     {"destinationPortFrom", offsetof(R, destination_port_from)},
                     {"destinationPortTo", offsetof(R, destination_port_to)},
                     {"natPort", offsetof(R, nat_port)},
                     {"state", offsetof(R, state)},
                     {"matches", offsetof(R, matches)},
                     {"inverts", offsetof(R, inverts)},
                     {"sourcePrefix", offsetof(R, source_prefix)},
                     {"destinationPrefix", offsetof(R, destination_prefix)},
                     {"protocol", offsetof(R, protocol)},
                     {"target", offsetof(R, target)},
                     {"recentCheck", offsetof(R, recent_check)},
                     {"addressType", offsetof(R, address_type)},
                     {"setDimensions", offsetof(R, set_dimensions)},
                     {"setSources", offsetof(R, set_sources)}});
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
  layout.Set("conntrackAddress", ConntrackAddress(env));
  layout.Set("ipsetSet", IpsetSet(env));
  layout.Set("ipsetEntry", IpsetEntry(env));
  layout.Set("ipsetOp", IpsetOp(env));
  layout.Set("xtChain", XtChain(env));
  layout.Set("xtRule", XtRule(env));
  layout.Set("failure", MakeRecord(env, sizeof(FailureRecord),
                                   {{"index", offsetof(FailureRecord, index)},
                                    {"errno", offsetof(FailureRecord, code)},
                                    {"textOffset", offsetof(FailureRecord, text_offset)},
                                    {"textLength", offsetof(FailureRecord, text_length)},
                                    {"unknown", offsetof(FailureRecord, unknown)}}));
  return layout;
}

}  // namespace viaduct::binding

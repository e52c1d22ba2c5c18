#include "binding/layout.h"

#include "binding/layout_table.h"

namespace viaduct::binding {

namespace {

Napi::Object Child(Napi::Object parent, const char* name) {
  if (!parent.Has(name)) parent.Set(name, Napi::Object::New(parent.Env()));
  return parent.Get(name).As<Napi::Object>();
}

}  // namespace

Napi::Object MakeLayout(Napi::Env env) {
  auto layout = Napi::Object::New(env);
  for (const LayoutRow& row : kLayoutTable)
    Child(Child(layout, row.room), row.part)
        .Set(row.member, Napi::Number::New(env, static_cast<double>(row.value)));
  return layout;
}

}  // namespace viaduct::binding

{
  "targets": [
    {
      "target_name": "viaduct",
      "sources": ["<!@(cat native/core_sources.txt native/addon_sources.txt)"],
      "actions": [
        {
          "action_name": "layout_table",
          "inputs": ["native/records.mjs", "<!@(ls native/*/record.h)"],
          "outputs": ["<(INTERMEDIATE_DIR)/binding/layout_table.h"],
          "action": ["node", "native/records.mjs", "--table", "<@(_outputs)"]
        }
      ],
      "include_dirs": ["native", "<(INTERMEDIATE_DIR)", "<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": [
        "NAPI_VERSION=9",
        "NODE_ADDON_API_DISABLE_DEPRECATED",
        "NODE_ADDON_API_CPP_EXCEPTIONS_ALL",
        "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"
      ],
      "cflags!": ["-fno-exceptions"],
      "cflags_cc!": ["-fno-exceptions", "-fno-rtti", "-std=gnu++17", "-std=gnu++1y"],
      "cflags_cc": ["-std=c++20", "-fvisibility=hidden", "-Wall", "-Wextra", "-fstack-protector-strong"],
      "ldflags": ["-Wl,-z,relro,-z,now,-z,noexecstack"],
      "configurations": {
        "Release": { "cflags_cc": ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"] }
      }
    }
  ]
}

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
      "defines": ["<!@(cat native/addon_definitions.txt)"],
      "cflags!": ["-fno-exceptions"],
      "cflags_cc!": ["-fno-exceptions", "-fno-rtti", "-std=gnu++17", "-std=gnu++1y"],
      "cflags_cc": ["<!@(cat native/addon_compile_options.txt)"],
      "ldflags": ["<!@(cat native/addon_link_options.txt)"]
    }
  ]
}

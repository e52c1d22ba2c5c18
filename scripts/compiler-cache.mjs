// ccache, for all that the tests compile: every clone compiles the addon three times and its core once with sanitizers.
import { join } from 'node:path'
import { cacheFolder } from './guest/kernel.mjs'
import { root } from './steps.mjs'

/** From now on, in this process and in those that it starts. CMake looks at it when it makes a folder for a build. */
export function useCompilerCache() {
  Object.assign(process.env, {
    CMAKE_CXX_COMPILER_LAUNCHER: 'ccache',
    CCACHE_DIR: join(cacheFolder(), 'ccache'),
    // One clone finds the objects that another one compiled, in any folder.
    CCACHE_BASEDIR: root,
    CCACHE_NOHASHDIR: 'true',
  })
}

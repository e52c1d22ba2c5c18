// Sets up ccache for the tests. A run compiles the addon three times and the C++ core once with sanitizers.
import { join } from 'node:path'
import { cacheFolder } from './guest/kernel.mjs'
import { root } from './steps.mjs'

/** Makes later compilations of this process and its children use ccache. CMake reads the setting when it configures a build folder. */
export function useCompilerCache() {
  Object.assign(process.env, {
    CMAKE_CXX_COMPILER_LAUNCHER: 'ccache',
    CCACHE_DIR: join(cacheFolder(), 'ccache'),
    // Clones in different folders share compiled objects.
    CCACHE_BASEDIR: root,
    CCACHE_NOHASHDIR: 'true',
  })
}

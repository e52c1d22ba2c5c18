// The image suite: builds the Dockerfile for x64 and arm64 on its own base images, and tests the x64 image like a container.
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../guest/kernel.mjs'
import { inChroot, prepareBases } from '../image/bases.mjs'
import { buildah, withStorage } from '../image/storage.mjs'
import { emulated } from '../cross/architectures.mjs'
import { read, run } from '../steps.mjs'
import { compiledTests, inNewNamespace, judge, nodeTest } from './node-tests.mjs'

/** Limit in seconds, far above the usual time. */
const limitSeconds = 900

/** No commit of this tree: the layers of the image do not depend on it. */
const commit = '0123456789abcdef0123456789abcdef01234567'

/**
 * @param {string} log
 * @returns {Promise<import('./node-tests.mjs').SuiteResult>}
 */
export async function imageSuite(log) {
  const bases = await prepareBases()
  return withStorage(async () => {
    const image = await buildImage('amd64', { BUILD_IMAGE: bases.build, RUNTIME_IMAGE: bases.runtime }, log)
    const named = { BUILD_IMAGE: bases.build, NODE_IMAGE: bases.nodeArm64, RUNTIME_IMAGE: bases.runtimeArm64 }
    const arm64 = await buildImage('arm64', named, log)
    const { OCIv1 } = JSON.parse(await read(buildah('inspect', '--type', 'image', image)))
    const armRoot = await mounted(arm64)
    const env = {
      VIADUCT_IMAGE_COMMIT: commit,
      VIADUCT_IMAGE: await mounted(image),
      VIADUCT_IMAGE_BASE: await mounted(bases.runtime),
      VIADUCT_IMAGE_CONFIG: JSON.stringify(OCIv1.config),
      VIADUCT_IMAGE_ARM64: armRoot,
      VIADUCT_IMAGE_ARM64_INSPECTED: await read(buildah('inspect', '--type', 'image', arm64)),
      VIADUCT_IMAGE_ARM64_EMULATOR: JSON.stringify([emulated('arm64')[0], '-L', armRoot]),
      VIADUCT_IMAGE_INDEX: await indexOf([image, arm64]),
    }
    const tests = compiledTests('test/image')
    const result = await run([...inNewNamespace, ...nodeTest, ...tests], {
      log,
      env,
      timeoutSeconds: limitSeconds,
    })
    const { summary, ...judged } = judge(result)
    return { ...judged, summary: [summary, await size(image), ...measured(result.output)].join(', ') }
  })
}

/**
 * Makes an image index, as a registry has it.
 * @param {readonly string[]} images
 * @returns {Promise<string>} its JSON
 */
async function indexOf(images) {
  const name = 'localhost/viaduct-index'
  await read(buildah('manifest', 'create', name))
  for (const image of images) await read(buildah('manifest', 'add', name, image))
  return read(buildah('manifest', 'inspect', name))
}

/**
 * @param {'amd64' | 'arm64'} architecture
 * @param {Record<string, string>} bases by their build arguments
 * @param {string} log
 * @returns {Promise<string>} the image's id
 */
async function buildImage(architecture, bases, log) {
  const compiled = join(cacheFolder(), 'ccache')
  mkdirSync(compiled, { recursive: true })
  const certificates = '/etc/ssl/certs/ca-certificates.crt'
  const volumes = [
    `${compiled}:/ccache`,
    `${await npmCache()}:/npm`,
    // The certificates of the machine, which may need them to reach npm's registry.
    ...(existsSync(certificates) ? [`${certificates}:${certificates}:ro`] : []),
  ]
  const bound = volumes.flatMap((volume) => ['--volume', volume])
  const built = { BUILDPLATFORM: 'linux/amd64', VIADUCT_COMMIT: commit, ...bases }
  const named = Object.entries(built).flatMap(([key, value]) => ['--build-arg', `${key}=${value}`])
  const options = ['--platform', `linux/${architecture}`, '--no-cache', '--force-rm', ...bound, ...named]
  const printed = await read(buildah('build', ...options, '.'), {
    log,
    env: inChroot,
    timeoutSeconds: limitSeconds,
  })
  return printed.split('\n').at(-1)
}

async function npmCache() {
  const folder = await read(['npm', 'config', 'get', 'cache'])
  mkdirSync(folder, { recursive: true })
  return folder
}

/**
 * @param {string} image
 * @returns {Promise<string>} the folder with all files of the image
 */
async function mounted(image) {
  return read(buildah('mount', await read(buildah('from', image))))
}

/** Unpacked size, with the base image. @param {string} image */
async function size(image) {
  return `image ${await read(buildah('images', '--format', '{{.Size}}', image))}`
}

/** The measurements of a test: lines `ℹ measured: start 350 ms`. @param {string} output */
function measured(output) {
  return [...output.matchAll(/^\s*ℹ measured: (.*)$/gm)].map((match) => match[1])
}

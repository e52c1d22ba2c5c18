// The image suite: builds the Dockerfile on its own base images, and tests the image like a container.
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from '../guest/kernel.mjs'
import { inChroot, prepareBases } from '../image/bases.mjs'
import { buildah, withStorage } from '../image/storage.mjs'
import { read, run } from '../steps.mjs'
import { compiledTests, inNewNamespace, judge, nodeTest } from './node-tests.mjs'

/** Limit in seconds, far above the usual time. */
const limitSeconds = 900

/**
 * @param {string} log
 * @returns {Promise<import('./node-tests.mjs').SuiteResult>}
 */
export async function imageSuite(log) {
  const bases = await prepareBases()
  return withStorage(async () => {
    const image = await buildImage(bases, log)
    const { OCIv1 } = JSON.parse(await read(buildah('inspect', '--type', 'image', image)))
    const env = {
      VIADUCT_IMAGE: await mounted(image),
      VIADUCT_IMAGE_BASE: await mounted(bases.runtime),
      VIADUCT_IMAGE_CONFIG: JSON.stringify(OCIv1.config),
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
 * @param {{ readonly build: string, readonly runtime: string }} bases
 * @param {string} log
 * @returns {Promise<string>} the image's id
 */
async function buildImage(bases, log) {
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
  const named = [`BUILD_IMAGE=${bases.build}`, `RUNTIME_IMAGE=${bases.runtime}`].flatMap((argument) => [
    '--build-arg',
    argument,
  ])
  const printed = await read(buildah('build', '--no-cache', '--force-rm', ...bound, ...named, '.'), {
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

// dist/agent.js, the launcher of the bundle: in a test folder and from the build.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { getPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Script } from 'node:vm'
import { bytecodeProbe } from '../support/bytecode-probe.js'
import bytecodeFile = require('../../src/bytecode.cjs')

const { seal, unseal } = bytecodeFile
const dist = fileURLToPath(new URL('../../../../dist/', import.meta.url))

const folder = mkdtempSync(join(tmpdir(), 'viaduct-launch-'))
after(() => rmSync(folder, { recursive: true }))

const bundlePrinting = (word: string): string =>
  `(function (require, filename) { console.log('${word}', require('node:path').basename(filename)) })`

const bytecodeOf = (source: string): Buffer => new Script(source).createCachedData()

function sealed(source: string, bytecode = bytecodeOf(source)): Buffer {
  return seal(Buffer.from(source), bytecode)
}

function damaged(file: Buffer, damage: (bytes: Buffer) => void): Buffer {
  damage(file)
  return file
}

describe('the launcher runs the bundle beside it', () => {
  const source = bundlePrinting('right')
  const another = bundlePrinting('wrong')
  const cases: readonly { readonly name: string; readonly bytecode?: Buffer }[] = [
    { name: 'without bytecode' },
    { name: 'with its bytecode', bytecode: sealed(source) },
    { name: 'and not the bytecode of another source of the same length', bytecode: sealed(another) },
    { name: 'with bytecode that V8 refuses', bytecode: sealed(source, Buffer.alloc(500, 1)) },
    {
      name: 'with incomplete bytecode',
      bytecode: damaged(sealed(source), (bytes) => bytes.fill(0, bytes.length / 2)),
    },
    {
      name: 'with a changed bit in its bytecode',
      bytecode: damaged(sealed(source), (bytes) => bytes.writeUInt8(bytes.readUInt8(100) ^ 1, 100)),
    },
    { name: 'with a truncated file', bytecode: sealed(source).subarray(0, 3) },
  ]
  for (const { name, bytecode } of cases) {
    test(name, () => {
      copyFileSync(join(dist, 'agent.js'), join(folder, 'agent.cjs'))
      writeFileSync(join(folder, 'bundle.js'), source)
      rmSync(join(folder, 'bundle.bytecode'), { force: true })
      if (bytecode !== undefined) writeFileSync(join(folder, 'bundle.bytecode'), bytecode)
      const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'agent.cjs')], {
        encoding: 'utf8',
      })
      assert.deepEqual({ status, stdout, stderr }, { status: 0, stdout: 'right agent.cjs\n', stderr: '' })
    })
  }
})

for (const name of ['bundle', 'command']) {
  test(`V8 accepts the bytecode of the build for ${name}.js`, () => {
    const bundle = readFileSync(join(dist, `${name}.js`))
    const cachedData = unseal(bundle, readFileSync(join(dist, `${name}.bytecode`)))
    assert.ok(cachedData !== undefined)
    const script = new Script(bundle.toString('latin1'), { cachedData })
    assert.equal(script.cachedDataRejected, false)
  })
}

test('V8 accepts the bytecode of the build with limits of the heap', () => {
  const probe = join(folder, 'probe.cjs')
  writeFileSync(probe, bytecodeProbe)
  const limits = ['--max-old-space-size=512', '--max-semi-space-size=8']
  const agent = [...limits, '--require', probe, join(dist, 'agent.js'), '--version']
  const { stdout } = spawnSync(process.execPath, agent, { encoding: 'utf8' })
  assert.match(stdout, /^bytecode refused: false$/m)
})

const rare = [
  { name: 'a kubeconfig', file: 'kubeconfig.js', mark: 'applyToHTTPSOptions(' },
  { name: 'a proxy', file: 'proxy-agent.js', mark: 'SocksClient' },
]
for (const { name, file, mark } of rare)
  test(`the libraries for ${name} are only in ${file}`, () => {
    const scripts = ['bundle.js', ...rare.map((script) => script.file)]
    const holders = scripts.filter((script) => readFileSync(join(dist, script), 'latin1').includes(mark))
    assert.deepEqual(holders, [file])
  })

for (const scheme of ['http', 'socks5'])
  test(`the ${scheme} proxy of a kubeconfig works from dist, and DEBUG shows no credentials`, () => {
    const kubeconfig = join(folder, 'config')
    const cluster = { server: 'http://192.0.2.1', 'proxy-url': `${scheme}://me:secret@127.0.0.1:1` }
    const named = { cluster: 'c', user: 'u' }
    const document = {
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'x', context: named }],
      'current-context': 'x',
    }
    writeFileSync(kubeconfig, JSON.stringify(document))
    const program = `
      const { kubeconfigOptions } = require(${JSON.stringify(join(dist, 'kubeconfig.js'))})
      const { readFileSync } = require('node:fs')
      const readFile = (path) => readFileSync(path, 'utf8')
      const clock = { now: Date.now, unixMs: Date.now, schedule: () => () => undefined }
      const reports = { report: () => undefined }
      const dependencies = { environment: {}, readFile, clock, warnings: reports, changes: reports }
      kubeconfigOptions({ path: ${JSON.stringify(kubeconfig)}, master: '' }, dependencies)
        .then(({ login }) => login())
        .then(({ agent }) => require('node:http').get('http://192.0.2.1', { agent }))
        .then((request) => request.on('error', ({ message }) => console.log(message)))`
    const env = { ...process.env, DEBUG: '*' }
    const { stdout, stderr } = spawnSync(process.execPath, ['-e', program], { encoding: 'utf8', env })
    assert.match(stdout, /connect ECONNREFUSED 127\.0\.0\.1:1$/mu)
    assert.equal(stderr, '')
  })

describe('the launcher runs with a niceness', () => {
  const cases: readonly (readonly [word: string, least: number])[] = [
    ['plan', 10],
    ['diff', 10],
    ['doctor', 10],
    ['bundle', 10],
    ['hand-over', 0],
    ['--version', 0],
  ]
  // A process may not lower its own: it may have more than 10 already.
  for (const [word, least] of cases)
    for (const added of [0, 15])
      test(`of at least ${least}: ${word}, started with ${added} more`, () => {
        copyFileSync(join(dist, 'agent.js'), join(folder, 'agent.cjs'))
        const source = `(function (require) { console.log(require('node:os').getPriority()) })`
        writeFileSync(join(folder, 'bundle.js'), source)
        rmSync(join(folder, 'bundle.bytecode'), { force: true })
        const command = ['-n', `${added}`, process.execPath, join(folder, 'agent.cjs'), word]
        const { stdout } = spawnSync('nice', command, { encoding: 'utf8' })
        assert.equal(stdout, `${Math.max(least, Math.min(19, getPriority() + added))}\n`)
      })
})

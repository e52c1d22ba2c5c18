// The image that the Dockerfile builds, run as a container would run it: its own root, which is read-only, and CAP_NET_ADMIN alone. The
// suite builds and mounts it (scripts/suites/image.mjs).
import assert from 'node:assert/strict'
import { cpSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { bytecodeProbe } from '../support/bytecode-probe.js'
import { Namespace } from '../support/namespaces.js'
import { serverListens } from '../support/page-question.js'
import { treeRoot } from '../support/tree.js'

const image = variable('VIADUCT_IMAGE')
const base = variable('VIADUCT_IMAGE_BASE')
/** The build argument of the suite. */
const commit = variable('VIADUCT_IMAGE_COMMIT')
const config: {
  readonly Env: readonly string[]
  readonly Entrypoint: readonly string[]
  readonly StopSignal: string
  readonly Labels: Readonly<Record<string, string>>
} = JSON.parse(variable('VIADUCT_IMAGE_CONFIG'))

/** A container as `securityContext` of deploy/kubernetes describes it: all of the root is read-only but /run. */
const enter = `set -eu
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount --bind "$folder" "$root/mnt"
mount -o remount,bind,ro "$root"
if [ "$settings" = read-only ]; then
  mount --bind "$root/proc/sys" "$root/proc/sys"
  mount -o remount,bind,ro "$root/proc/sys"
fi
exec chroot "$root" setpriv --bounding-set="$capabilities" --inh-caps="$capabilities" --no-new-privs "$@"`

interface Rights {
  /** Paths below /proc/sys. */
  readonly settings: 'writable' | 'read-only'
  /** Changes to what the test has. */
  readonly capabilities: string
}
const privileged: Rights = { settings: 'writable', capabilities: '+net_admin' }
const netAdminAlone: Rights = { settings: 'read-only', capabilities: '-all,+net_admin' }

function variable(name: string): string {
  const value = process.env[name]
  assert.ok(value !== undefined, `${name} is set by the image suite`)
  return value
}

/** Status codes of the health server's paths. */
async function statusOf(node: Namespace, ...paths: readonly string[]): Promise<readonly string[]> {
  const script = `for (const path of process.argv.slice(1))
      fetch('http://127.0.0.1:10256' + path).then(({ status }) => console.log(path, status))`
  const lines = (await node.must(process.execPath, '-e', script, ...paths)).split('\n')
  return paths.map((path) => lines.find((line) => line.startsWith(`${path} `))?.split(' ')[1] ?? 'no answer')
}

function pathsOf(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
}

function rssMib(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024)
}

describe('the image', { timeout: 120_000 }, () => {
  let node: Namespace
  let folder: string

  before(async () => {
    node = await Namespace.create('node')
    folder = mkdtempSync(join(tmpdir(), 'viaduct-image-'))
    cpSync(join(treeRoot, 'examples/shop'), folder, { recursive: true })
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  /** Words that run a command of the image in a container. */
  function contained({ settings, capabilities }: Rights, command: readonly string[]): readonly string[] {
    const shell = [
      `root=${image}`,
      `folder=${folder}`,
      `settings=${settings}`,
      `capabilities=${capabilities}`,
    ]
    return ['env', '-i', ...config.Env, ...shell, 'unshare', '--mount', 'sh', '-c', enter, 'sh', ...command]
  }

  it('has Node, the agent and licences beside its base, and nothing else', () => {
    const inBase = new Set(pathsOf(base))
    const added = pathsOf(image).filter(
      (path) => !inBase.has(path) && !lstatSync(join(image, path)).isDirectory(),
    )
    const agent = readdirSync(join(treeRoot, 'dist')).map((file) => `opt/viaduct/${file}`)
    const licences = ['LICENSE', 'LICENSE-node', 'LICENSES-npm'].map(
      (file) => `usr/share/doc/viaduct/${file}`,
    )
    const programs = ['usr/local/bin/kube-proxy', 'usr/local/bin/node', 'usr/local/bin/viaduct']
    assert.deepEqual(added.toSorted(), [...agent, ...licences, ...programs].toSorted())
  })

  it('has no compiler, and none of the tools whose work the agent does', () => {
    const unwanted =
      /^(?:g\+\+|gcc|cc|c\+\+|clang|make|cmake|ninja|npm|iptables|ip6tables|xtables|ipset|ipvsadm|conntrack|nft)\b/
    const folders = ['bin', 'sbin', 'usr/bin', 'usr/sbin', 'usr/local/bin', 'usr/local/sbin']
    const programs = folders.flatMap((name) => readdirSync(join(image, name)))
    assert.ok(programs.includes('node'))
    assert.deepEqual(
      programs.filter((name) => unwanted.test(name)),
      [],
    )
  })

  it('names the licence of every package that is in the bundle', () => {
    const licences = readFileSync(join(image, 'usr/share/doc/viaduct/LICENSES-npm'), 'utf8')
    const agent = join(image, 'opt/viaduct')
    const scripts = readdirSync(agent).filter((file) => file.endsWith('.js'))
    const source = scripts.map((file) => readFileSync(join(agent, file), 'utf8')).join('\n')
    const paths = source.matchAll(/^ *\/\/ node_modules\/(?:.*\/node_modules\/)?((?:@[^/]+\/)?[^/]+)\//gm)
    const bundled = new Set([...paths].map(([, name = '']) => name))
    assert.ok(bundled.has('pino'))
    for (const name of [...bundled, 'node-addon-api']) assert.ok(licences.includes(`== ${name} `), name)
  })

  it('is stopped by SIGTERM, and runs under the name of the program that it replaces', async () => {
    assert.equal(config.StopSignal, 'SIGTERM')
    const { code, stdout } = await node.run(
      ...contained(netAdminAlone, ['/usr/local/bin/kube-proxy', '--version']),
    )
    assert.deepEqual({ code, stdout }, { code: 0, stdout: `viaduct 0.2.0 (commit ${commit})` })
    assert.equal(config.Labels['org.opencontainers.image.revision'], commit)
  })

  it('starts with its bytecode', async () => {
    writeFileSync(join(folder, 'probe.cjs'), bytecodeProbe)
    const [program = '', ...args] = config.Entrypoint
    const command = [program, '--require', '/mnt/probe.cjs', ...args, '--version']
    assert.match(await node.must(...contained(netAdminAlone, command)), /^bytecode refused: false$/m)
  })

  it('runs with CAP_NET_ADMIN alone on a read-only file system, after --init-only', async (test) => {
    const flags = ['--manifests', '/mnt', '--proxy-mode', 'iptables', '--hostname-override', 'node-a']
    const command = [...config.Entrypoint, ...flags]
    await node.must(...contained(privileged, [...command, '--init-only']))

    const started = performance.now()
    const agent = node.start(...contained(netAdminAlone, [...command, '-v', '2']))
    for (const family of ['IPv4', 'IPv6'])
      await agent.line((line) => line.includes('"Sync done"') && line.includes(`"ipFamily":"${family}"`))
    test.diagnostic(`measured: in force after ${Math.round(performance.now() - started)} ms`)

    await serverListens(agent, 'healthz')
    assert.deepEqual(await statusOf(node, '/healthz', '/livez'), ['200', '200'])
    test.diagnostic(`measured: RSS ${rssMib(agent.pid)} MiB`)
    assert.match(readFileSync(`/proc/${agent.pid}/status`, 'utf8'), /^CapEff:\t0000000000001000$/m)
    const services = await node.must('nft', 'list', 'set', 'ip', 'kube-proxy', 'services-with-endpoints')
    assert.match(services, /10\.96\.0\.20 \. tcp \. 80/)

    agent.signal('SIGTERM')
    const { code, stderr } = await agent.ended
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
  })
})

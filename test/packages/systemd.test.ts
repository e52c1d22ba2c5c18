// The Debian package under a real systemd, which is process 1 of its own namespaces: the life of the unit, from its installation to its
// stop. The tests are steps: each one begins where the one before it ends.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { mustRun } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

const made = process.env['VIADUCT_DEB_PACKAGE']
assert.ok(made !== undefined, 'VIADUCT_DEB_PACKAGE is set by the packages suite')
const file = made

/** Without the triggers of other packages, such as the index of all manual pages. */
const dpkg = 'dpkg --no-triggers --force-depends'
const install = `${dpkg} --install /shared/viaduct.deb > /dev/null 2>&1`

const configuration = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: node-a
clusterCIDR: 10.244.0.0/16
`

// Without its node's object, the agent would wait for it.
const manifest = `apiVersion: v1
kind: Node
metadata: { name: node-a }
status: { addresses: [{ type: InternalIP, address: 127.0.0.1 }] }
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec:
  type: NodePort
  clusterIP: 10.96.0.20
  ports: [{ name: http, port: 80, nodePort: 30080, protocol: TCP }]
`

/** The first process that a process has started. */
function firstChild(pid: string): string {
  const [child = ''] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
  return child
}

describe('the unit of the Debian package', { timeout: 120_000 }, () => {
  let shared: string
  /** Ends when its standard input is closed: also after the time of these tests, when no hook runs. */
  let machine: ChildProcess
  let ended: Promise<unknown>
  /** The process id of systemd, as this machine sees it. */
  let systemd: string

  before(async () => {
    shared = mkdtempSync(join(tmpdir(), 'viaduct-systemd-'))
    copyFileSync(file, join(shared, 'viaduct.deb'))
    mkdirSync(join(shared, 'manifests'))
    writeFileSync(join(shared, 'manifests/web.yaml'), manifest)
    await mustRun(['mkfifo', join(shared, 'ready')])
    const [, unified] = / (\S+) cgroup2 /u.exec(readFileSync('/proc/mounts', 'utf8')) ?? []
    assert.ok(unified !== undefined, 'cgroup2 is mounted')
    const cgroup = join(unified, `viaduct-test-${process.pid}`)
    const spaces = ['--cgroup', '--pid', '--fork', '--mount', '--net', '--uts', '--ipc', '--kill-child']
    const support = join(treeRoot, 'test/support')
    const unshare = ['unshare', ...spaces, join(support, 'systemd-machine.sh'), shared, process.execPath]
    machine = spawn(join(support, 'in-cgroup.sh'), [cgroup, ...unshare], {
      stdio: ['pipe', 'inherit', 'inherit'],
    })
    // The machine does not keep this process running.
    machine.unref()
    assert.ok(machine.stdin instanceof Socket)
    machine.stdin.unref()
    ended = once(machine, 'exit')
    assert.equal(await mustRun(['timeout', '60', 'cat', join(shared, 'ready')]), 'ready')
    systemd = firstChild(firstChild(String(machine.pid)))
  })

  after(async () => {
    machine.ref()
    machine.stdin?.end()
    await ended
    rmSync(shared, { recursive: true })
  })

  /** Runs a script of sh on the machine. */
  async function on(script: string): Promise<string> {
    const enter = [
      'nsenter',
      `--target=${systemd}`,
      '--mount',
      '--pid',
      '--net',
      '--uts',
      '--ipc',
      '--cgroup',
      '--root',
      '--wd',
    ]
    return await mustRun(['timeout', '40', ...enter, 'sh', '-ec', script])
  }

  async function show(property: string): Promise<string> {
    return await on(`systemctl show viaduct --value --property=${property}`)
  }

  /** Waits until a process has ended, and systemd has started the unit again. */
  async function restarted(pid: string): Promise<void> {
    await on(`tail --pid=${pid} --follow /dev/null; systemctl start viaduct`)
    assert.notEqual(await show('MainPID'), pid)
  }

  /** The sockets that the agent has, by their inodes. */
  async function sockets(): Promise<readonly string[]> {
    const pid = await show('MainPID')
    const listed = await on(`find /proc/${pid}/fd -lname 'socket:*' -printf '%l\\n'`)
    return listed.split('\n')
  }

  it('is installed, and not started', async () => {
    await on(install)
    assert.equal(await show('ActiveState'), 'inactive')
    assert.equal(await on('systemd-analyze verify viaduct.service 2>&1'), '')
  })

  it('is ready when everything is in force', async () => {
    writeFileSync(join(shared, 'config.yaml'), configuration)
    const flags = '--config=/shared/config.yaml --manifests=/shared/manifests --hold-node-ports'
    await on(`sed --in-place 's|^VIADUCT_FLAGS=.*|VIADUCT_FLAGS=${flags}|' /etc/default/viaduct`)
    await on('systemctl start viaduct')
    assert.equal(await show('ActiveState'), 'active')
    assert.match(await on('nft list table ip kube-proxy'), /10\.96\.0\.20/u)
    assert.equal(await on('stat --format=%a /run/viaduct'), '700')
    assert.match(await on('viaduct status'), /^Mode: +nftables$/mu)
  })

  it('keeps held node ports on the same sockets while it restarts', async () => {
    const [pid, former] = [await show('MainPID'), new Set(await sockets())]
    await on('systemctl restart viaduct')
    assert.notEqual(await show('MainPID'), pid)
    const kept = (await sockets()).filter((name) => former.has(name))
    assert.ok(kept.length > 0)
  })

  it('starts again after a SIGKILL', async () => {
    const pid = await show('MainPID')
    await on(`kill -KILL ${pid}`)
    await restarted(pid)
    assert.match(await on('viaduct status'), /^Mode: +nftables$/mu)
  })

  it('starts again with an edited configuration', async () => {
    const pid = await show('MainPID')
    writeFileSync(join(shared, 'config.yaml'), configuration.replace('nftables', 'userspace'))
    await restarted(pid)
    assert.match(await on('viaduct status'), /^Mode: +userspace$/mu)
    writeFileSync(join(shared, 'config.yaml'), configuration)
    await restarted(await show('MainPID'))
  })

  it('stops, and the rules stay in force', async () => {
    await on('systemctl stop viaduct')
    assert.equal(await show('Result'), 'success')
    assert.match(await on('nft list table ip kube-proxy'), /10\.96\.0\.20/u)
  })

  it('lives while an update unpacks its files: dpkg replaces them without a change of their bytes', async () => {
    await on('systemctl start viaduct')
    const [pid, restarts] = [await show('MainPID'), await show('NRestarts')]
    await on(`${dpkg} --unpack /shared/viaduct.deb > /dev/null 2>&1`)
    assert.match(await on(`grep viaduct.node /proc/${pid}/maps`), /viaduct\.node \(deleted\)$/mu)
    assert.match(await on('viaduct status'), /^Mode: +nftables$/mu)
    assert.deepEqual([await show('MainPID'), await show('NRestarts')], [pid, restarts])
  })

  it('starts again at an update', async () => {
    const pid = await show('MainPID')
    await on(`${install} && tail --pid=${pid} --follow /dev/null; systemctl start viaduct`)
    assert.notEqual(await show('MainPID'), pid)
    assert.match(await on('viaduct status'), /^Mode: +nftables$/mu)
  })

  it('is stopped and disabled by a removal, and the rules stay in force', async () => {
    const link = '/etc/systemd/system/multi-user.target.wants/viaduct.service'
    await on(`systemctl --quiet enable viaduct && test -L ${link}`)
    const pid = await show('MainPID')
    await on(`${dpkg} --remove viaduct > /dev/null 2>&1`)
    assert.equal(await on(`test -L ${link} || test -d /proc/${pid} || echo gone`), 'gone')
    assert.match(await on('nft list table ip kube-proxy'), /10\.96\.0\.20/u)
  })

  it('leaves no state of its links after a purge', async () => {
    const states = 'find /var/lib/systemd/deb-systemd-helper-enabled -name "viaduct*"'
    assert.notEqual(await on(states), '')
    await on(`${dpkg} --purge viaduct > /dev/null 2>&1`)
    assert.equal(await on(`${states} 2> /dev/null || true`), '')
  })
})

// Runs a command in a QEMU guest with a stock Debian kernel (IP_VS, dummy, ...) and this machine's files.
// Usage: node scripts/guest.mjs [--kernel VERSION] [--timeout SECONDS] [--work FOLDER] -- COMMAND [ARGUMENT...]
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { prepareKernel } from './guest/kernel.mjs'
import { versions } from './guest/packages.mjs'
import { isMain, root, run, runMain, StepError } from './steps.mjs'

/**
 * @typedef {object} GuestOptions
 * @property {string} name for messages and the guest's host name
 * @property {string} script lines of sh, run as root in the folder of the working tree (read-only in the guest) with `lo` up;
 *   VIADUCT_WORK names a writable folder that is shared with the host
 * @property {number} timeoutSeconds from start to power-off
 * @property {string} [kernel] version of the kernel, such as 5.10; default: that of the machine's own Debian
 * @property {string} [work] the host's side of VIADUCT_WORK; default: a temporary folder
 * @property {string} [log] file that receives the console
 * @property {(text: string) => void} [onOutput] receives the console's output at once
 */

/**
 * Boots the guest, runs the script, powers off. Throws StepError if the guest reports no status.
 * @param {GuestOptions} options
 * @returns {Promise<{ readonly status: number, readonly output: string }>}
 */
export async function runGuest(options) {
  const kernel = await prepareKernel(options.kernel)
  const work = options.work ?? (await mkdtemp(join(tmpdir(), 'viaduct-guest-')))
  const statusFile = join(work, 'guest-status')
  try {
    mkdirSync(work, { recursive: true })
    rmSync(statusFile, { force: true })
    writeFileSync(join(work, 'command.sh'), options.script)
    writeFileSync(join(work, 'guest.sh'), guestScript(options.name))
    const { status, output } = await run(qemuCommand(kernel, work), {
      timeoutSeconds: options.timeoutSeconds,
      log: options.log,
      onOutput: withoutCarriageReturns(options.onOutput),
    })
    if (existsSync(statusFile))
      return { status: Number(readFileSync(statusFile, 'utf8')), output: output.replaceAll('\r', '') }
    const tail = output.replaceAll('\r', '').trimEnd().split('\n').slice(-15).join('\n')
    const why =
      status === 124
        ? `was not done within ${options.timeoutSeconds} s`
        : `ended without a status (qemu: ${status})`
    throw new StepError(`guest ${options.name} ${why}; its console ended with:\n${tail}`)
  } finally {
    if (options.work === undefined) rmSync(work, { recursive: true, force: true })
  }
}

/** @param {((text: string) => void) | undefined} sink */
function withoutCarriageReturns(sink) {
  return sink && ((text) => sink(text.replaceAll('\r', '')))
}

/**
 * @param {import('./guest/kernel.mjs').GuestKernel} kernel
 * @param {string} work
 */
function qemuCommand(kernel, work) {
  const memoryMib = Math.min(4096, Math.floor(totalmem() / 2 ** 21))
  const cpu = kernel.accelerator === 'kvm' ? 'host' : 'max'
  // The guest ends with this process, even after a crash.
  const qemu = ['setpriv', '--pdeathsig', 'KILL', 'qemu-system-x86_64']
  const machine = [
    '-accel',
    kernel.accelerator,
    '-cpu',
    cpu,
    '-m',
    `${memoryMib}M`,
    '-smp',
    '2',
    '-nic',
    'none',
  ]
  const boot = ['-kernel', kernel.image, '-initrd', kernel.initramfs, '-no-reboot']
  const console = ['-display', 'none', '-monitor', 'none', '-serial', 'stdio']
  // Real nodes use the TSC as their clock. Emulated processors fail the kernel's TSC test, and a read of another clock exits the guest.
  // Emulated processors do not speculate. Mitigations would cost a third of the guest's time.
  const commandLine = 'console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off init_on_alloc=0'
  const folders = [
    share('/', 'root', 'readonly=on'),
    share(root, 'repo', 'readonly=on'),
    share(kernel.folder, 'kernel', 'readonly=on'),
    share(work, 'work', 'readonly=off'),
  ]
  return [...qemu, ...machine, ...boot, '-append', commandLine, ...console, ...folders.flat()]
}

/**
 * @param {string} path
 * @param {string} tag
 * @param {string} access
 */
function share(path, tag, access) {
  const escaped = path.replaceAll(',', ',,')
  return ['-virtfs', `local,path=${escaped},mount_tag=${tag},security_model=none,multidevs=remap,${access}`]
}

/**
 * The script that runs after init.sh, on the host's files: the last set-up, the command, its status, power-off.
 * It mounts the working tree again, because the tree may be under /tmp, which is the guest's own.
 * @param {string} name
 */
function guestScript(name) {
  return `export PATH=/run/guest/bin:${quote(dirname(process.execPath))}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/tmp LANG=C.UTF-8 TERM=dumb NO_COLOR=1 VIADUCT_GUEST=1 VIADUCT_WORK=/mnt
ln -s /proc/self/fd /dev/fd; ln -s /proc/self/fd/0 /dev/stdin; ln -s /proc/self/fd/1 /dev/stdout; ln -s /proc/self/fd/2 /dev/stderr
mkdir -p /dev/pts /dev/shm /run/netns /run/lock
mount -t devpts pts /dev/pts; mount -t tmpfs shm /dev/shm
echo ${quote(`viaduct-${name}`)} > /proc/sys/kernel/hostname
ip link set lo up
mkdir -p ${quote(root)}
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro repo ${quote(root)}
cd ${quote(root)} && sh /mnt/command.sh < /dev/null 2>&1
echo $? > /mnt/guest-status
sync
echo 0 > /proc/sys/kernel/printk
exec busybox poweroff -f
`
}

/**
 * @param {string} text
 * @returns {string} one word of sh
 */
export function quote(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** @param {string} text */
function print(text) {
  process.stdout.write(text)
}

async function main() {
  const { values, positionals } = parseArgs({
    options: {
      kernel: { type: 'string' },
      timeout: { type: 'string', default: '600' },
      work: { type: 'string' },
    },
    allowPositionals: true,
  })
  const timeoutSeconds = Number(values.timeout)
  if (positionals.length === 0 || !(timeoutSeconds > 0)) {
    throw new StepError(
      `usage: node scripts/guest.mjs [--kernel ${versions.join('|')}] [--timeout SECONDS] [--work FOLDER] -- COMMAND [ARGUMENT...]`,
    )
  }
  // One argument is a line of sh; several are a command with its arguments.
  const script =
    positionals.length === 1 ? `${positionals[0]}\n` : `exec ${positionals.map(quote).join(' ')}\n`
  const { status } = await runGuest({
    name: 'guest',
    script,
    timeoutSeconds,
    onOutput: print,
    work: values.work,
    kernel: values.kernel,
  })
  process.exitCode = status
}

if (isMain(import.meta.url)) await runMain(main)

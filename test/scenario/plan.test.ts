// A dry run on the kernel in memory takes the transactions that a start on it sends. The kernel in memory has IP_VS in every build.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { plan } from '../../src/agent/testing.js'
import type { IpFamily } from '../../src/address.js'
import { type Clock, systemClock } from '../../src/clock.js'
import { KernelError } from '../../src/errors.js'
import { type ConfigInput, resolveConfig } from '../../src/config/index.js'
import { isLasting, printTransactions } from '../../src/inspect/index.js'
import type { Kernel, KernelTransaction, Xtables } from '../../src/kernel/index.js'
import type { TakeTransaction } from '../../src/kernel/testing.js'
import {
  dryRunConntrack,
  dryRunPorts,
  dryRunRelay,
  quietLook,
} from '../../src/kernel/dry-run/dry-run-host.js'
import { dryRunIpset } from '../../src/kernel/dry-run/dry-run-ipset.js'
import { dryRunIpvs } from '../../src/kernel/dry-run/dry-run-ipvs.js'
import { dryRunNetwork } from '../../src/kernel/dry-run/dry-run-network.js'
import { dryRunNftables } from '../../src/kernel/dry-run/dry-run-nftables.js'
import { DryRunXtables } from '../../src/kernel/dry-run/dry-run-xtables.js'
import { withMembers } from '../../src/kernel/dry-run/take-batch.js'
import { NftXtables } from '../../src/kernel/xtables/nft/nft-xtables.js'
import { type ModelKernel, openModelKernel } from '../model/index.js'
import { MemoryLog } from '../support/pipeline-lab.js'
import { sendingKernel } from '../support/sending-kernel.js'
import { treeRoot } from '../support/tree.js'
import { olderServices } from '../support/older-services.js'

const base: ConfigInput = {
  manifests: join(treeRoot, 'examples/shop'),
  hostnameOverride: 'node-a',
  clusterCIDR: ['10.244.0.0/16', 'fd00:10:244::/56'],
}

/** The kernel as another process opens it: it desires no table of x_tables yet. */
function openKernel(model: ModelKernel): Kernel {
  const { xtNamespace, nftables, ipset } = model
  const fresh = openModelKernel({ xtNamespace, nftNamespace: nftables.namespace })
  const tables = new Map<string, Xtables>()
  return {
    ...model,
    xtables: (family, table, flavour = 'legacy') => {
      const key = `${flavour} ${family} ${table}`
      const made =
        tables.get(key) ??
        (flavour === 'nft'
          ? new NftXtables({ family, table }, nftables, ipset)
          : fresh.xtables(family, table))
      tables.set(key, made)
      return made
    },
    calls: new Map(),
    hurry: () => {},
    notifyServiceManager: () => {},
    peerCredentials: () => ({ pid: 1, uid: 0 }),
  }
}

/** The parts that a dry run replaces, on the kernel in memory. `isLoaded` false: modules that a start loads are not loaded yet. */
function dryRunOn(kernel: Kernel, take: TakeTransaction, isLoaded = true): Kernel {
  const tables = new Map<string, DryRunXtables>()
  const written = new Map<string, string>()
  return withMembers(kernel, {
    ...dryRunNftables(kernel, { isLoaded, canProbe: true, take }),
    ipvs: dryRunIpvs(kernel.ipvs, { isLoaded, hasScheduler: () => true, take }),
    ipset: dryRunIpset(kernel.ipset, {
      isLoaded,
      tables: async () => await Promise.all([...tables.values()].map(async (table) => await table.listing())),
      take,
    }),
    ...dryRunNetwork(kernel, take),
    conntrack: dryRunConntrack(kernel.conntrack, take),
    ports: dryRunPorts(kernel.ports, isLoaded, take),
    relay: dryRunRelay(kernel.relay, take),
    look: quietLook,
    sysctl: {
      read: async (path) => written.get(path) ?? (await kernel.sysctl.read(path)),
      write: async (path, value) => {
        // The kernel in memory throws that it lacks the setting.
        if ((await kernel.sysctl.read(path)) === undefined) return await kernel.sysctl.write(path, value)
        written.set(path, value)
        take({ part: 'sysctl', path, value, isRefused: false })
      },
    },
    xtables: (family, table, flavour = 'legacy') => {
      const place = { family, table }
      const key = `${flavour} ${family} ${table}`
      const made =
        tables.get(key) ??
        new DryRunXtables({
          place,
          flavour,
          list: async () => await kernel.listTable(place, flavour),
          packets: async (chains) => await kernel.xtables(family, table, flavour).packets(chains),
          take,
        })
      tables.set(key, made)
      return made
    },
  })
}

/** The commands of a start with this configuration, sorted: both families run at the same time. */
async function linesOf(
  wrap: (kernel: Kernel, take: TakeTransaction) => Kernel,
  kernel: Kernel,
  input: ConfigInput,
  clock = systemClock,
): Promise<readonly string[]> {
  const transactions: KernelTransaction[] = []
  const take: TakeTransaction = (transaction) => void transactions.push(transaction)
  await plan({
    config: resolveConfig({ ...base, ...input }),
    flagTexts: {},
    kernel: wrap(kernel, take),
    clock,
    log: new MemoryLog(),
    timeoutMs: 60_000,
  })
  return (
    printTransactions(transactions)
      .filter(isLasting)
      .map(({ tool, table = '', text }) => `${tool} ${table} ${text}`)
      // The slots of endpoints depend on the time.
      .map((line) => line.replaceAll(/meta mark & (0x[0-9a-f]+) \| \1/gu, 'slot'))
      .toSorted()
  )
}

/** A clock on which a minute takes a second. */
const fastClock: Clock = {
  ...systemClock,
  now: () => 60 * systemClock.now(),
  schedule: (delayMs, wake) => systemClock.schedule(delayMs / 60, wake),
}

/** The kernel refuses this reading twice for each family, after the mode is open: from the watch of links on. */
function refusingTwice<T>(
  kernel: Kernel,
  read: (family: IpFamily) => Promise<T>,
): { readonly kernel: Kernel; readonly read: (family: IpFamily) => Promise<T> } {
  const refused: IpFamily[] = []
  let isOpen = false
  const watch: Kernel['links']['watch'] = () => {
    isOpen = true
    return kernel.links.watch()
  }
  return {
    kernel: withMembers(kernel, { links: withMembers(kernel.links, { watch }) }),
    read: async (family) => {
      if (!isOpen || refused.filter((each) => each === family).length === 2) return await read(family)
      refused.push(family)
      throw new KernelError({ errno: constants.errno.ENOBUFS, subsystem: 'nftables', operation: 'read' })
    },
  }
}

/** Readings of the kernel, and the mode whose layer asks for them. */
const refusedReadings: Readonly<Record<string, readonly [keyof typeof modes, (kernel: Kernel) => Kernel]>> = {
  'the VIP routes of userspace mode': [
    'userspace',
    (whole) => {
      const { routes } = whole
      const { kernel, read } = refusingTwice(whole, async (family) => await routes.dumpLocalRoutes(family))
      return withMembers(kernel, { routes: withMembers(routes, { dumpLocalRoutes: read }) })
    },
  ],
  'the virtual servers of ipvs mode': [
    'ipvs legacy',
    (whole) => {
      const { ipvs } = whole
      const { kernel, read } = refusingTwice(whole, async (family) => await ipvs.dump(family))
      return withMembers(kernel, { ipvs: withMembers(ipvs, { dump: read }) })
    },
  ],
  'the table of nftables mode': [
    'nftables',
    (whole) => {
      const { nftables } = whole
      const { kernel, read } = refusingTwice(whole, async (family) => await nftables.tables(family))
      return withMembers(kernel, { nftables: withMembers(nftables, { tables: read }) })
    },
  ],
}

const modes = {
  'ipvs legacy': { mode: 'ipvs', iptablesFlavour: 'legacy' },
  'ipvs nft': { mode: 'ipvs', iptablesFlavour: 'nft' },
  'ipvs with addresses': { mode: 'ipvs', iptablesFlavour: 'legacy', vipBinding: 'addresses' },
  nftables: { mode: 'nftables' },
  'iptables legacy': { mode: 'iptables', iptablesFlavour: 'legacy' },
  userspace: { mode: 'userspace' },
} as const satisfies Readonly<Record<string, ConfigInput>>

describe('a dry run', { timeout: 120_000 }, () => {
  let folder: string
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'viaduct-plan-'))
    await writeFile(join(folder, 'old.yaml'), olderServices)
  })
  after(async () => await rm(folder, { recursive: true }))

  const pairs = [
    ['nothing', 'ipvs legacy'],
    ['nothing', 'ipvs nft'],
    ['nothing', 'ipvs with addresses'],
    ['ipvs legacy', 'ipvs legacy'],
    ['ipvs legacy', 'ipvs nft'],
    ['ipvs legacy', 'ipvs with addresses'],
    ['ipvs with addresses', 'ipvs legacy'],
    ['ipvs legacy', 'nftables'],
    ['ipvs nft', 'iptables legacy'],
    ['ipvs with addresses', 'userspace'],
    ['nftables', 'ipvs nft'],
    ['iptables legacy', 'ipvs legacy'],
    ['userspace', 'ipvs legacy'],
  ] as const
  for (const [former, mode] of pairs)
    it(`from ${former} of an older agent to ${mode} is what the start does, and is empty afterwards`, async () => {
      const model = openModelKernel()
      if (former !== 'nothing')
        await linesOf(sendingKernel, openKernel(model), {
          ...modes[former],
          manifests: folder,
          iptables: { masqueradeBit: 15 },
        })
      const planned = await linesOf(dryRunOn, openKernel(model), modes[mode])
      assert.ok(planned.length > 0)
      assert.deepEqual(planned, await linesOf(sendingKernel, openKernel(model), modes[mode]))
      assert.deepEqual(await linesOf(dryRunOn, openKernel(model), modes[mode]), [])
    })

  for (const [reading, [mode, refuse]] of Object.entries(refusedReadings))
    it(`asks again for ${reading}, when the kernel refuses them twice, and plans what the start does`, async () => {
      const model = openModelKernel()
      await linesOf(sendingKernel, openKernel(model), { ...modes[mode], manifests: folder })
      const planned = await linesOf(
        (kernel, take) => refuse(dryRunOn(kernel, take)),
        openKernel(model),
        modes[mode],
        fastClock,
      )
      assert.deepEqual(planned, await linesOf(sendingKernel, openKernel(model), modes[mode]))
    })

  for (const mode of Object.keys(modes).filter((name): name is keyof typeof modes => name in modes))
    it(`to ${mode}, before the modules are loaded, is what the start does`, async () => {
      const model = openModelKernel()
      const planned = await linesOf(
        (kernel, take) => dryRunOn(kernel, take, false),
        openKernel(model),
        modes[mode],
      )
      assert.deepEqual(planned, await linesOf(sendingKernel, openKernel(model), modes[mode]))
    })
})

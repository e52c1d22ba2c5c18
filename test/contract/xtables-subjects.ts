// The x_tables of the model and of the kernel, each with another program that changes tables.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { IpFamily } from '../../src/address.js'
import { describeXtRule } from '../../src/kernel/index.js'
import type { Xtables, XtFlavour, XtRule, XtTableName } from '../../src/kernel/index.js'
import { ModelXtNamespace, openModelKernel } from '../model/index.js'
import { mustRun } from '../support/processes.js'
import { openRealKernel } from './real-kernel.js'
import { setName } from './xtables-kinds.js'

/** A client of the tables: the agent, before or after a restart. */
export interface XtClient {
  xtables(family: IpFamily, table: XtTableName): Xtables
  close(): Promise<void>
}

/** Changes of one table by iptables. `index` counts from 0. */
export interface OtherProgram {
  addChain(chain: string): Promise<void>
  append(chain: string, rule: XtRule): Promise<void>
  prepend(chain: string, rule: XtRule): Promise<void>
  deleteRule(chain: string, index: number): Promise<void>
  flush(chain: string): Promise<void>
  removeChain(chain: string): Promise<void>
  /** Each chain with its rules as iptables-save prints them. */
  list(): Promise<Readonly<Record<string, readonly string[]>>>
}

/** A namespace with empty tables. */
export interface XtSubject {
  readonly flavour: XtFlavour
  open(): XtClient
  other(family: IpFamily, table: XtTableName): OtherProgram
  close(): Promise<void>
}

export async function openModelSubject(): Promise<XtSubject> {
  const xtNamespace = new ModelXtNamespace()
  return {
    flavour: 'legacy',
    open: () => openModelKernel({ xtNamespace }),
    other: (family, table) => {
      const kernel = xtNamespace.table(family, table)
      return {
        addChain: async (chain) => kernel.addChain(chain),
        append: async (chain, rule) => kernel.append(chain, rule),
        prepend: async (chain, rule) => kernel.prepend(chain, rule),
        deleteRule: async (chain, index) => kernel.deleteRule(chain, index),
        flush: async (chain) => kernel.flush(chain),
        removeChain: async (chain) => kernel.removeChain(chain),
        list: async () =>
          Object.fromEntries(
            [...kernel.chains].map(([chain, rules]) => [chain, rules.map((rule) => kernel.text(rule))]),
          ),
      }
    },
    close: async () => {},
  }
}

const families = ['ipv4', 'ipv6'] as const
const tables = ['nat', 'filter', 'mangle', 'raw'] as const
const programOf = { ipv4: 'iptables', ipv6: 'ip6tables' } as const

/** A table, and the flavour of the iptables that changes it. */
export interface XtablesOfTool {
  readonly family: IpFamily
  readonly table: XtTableName
  readonly flavour: XtFlavour
}

/** Runs iptables for one table. A shell parses the arguments, with the quotes of iptables-save. */
export function runTool({ family, table, flavour }: XtablesOfTool, words: string): Promise<string> {
  return mustRun(['sh', '-c', `${programOf[family]}-${flavour} -w 10 -t ${table} ${words}`])
}

/** The table as iptables-save prints it. */
export function saveTool(
  { family, table, flavour }: XtablesOfTool,
  ...flags: readonly string[]
): Promise<string> {
  return mustRun([`${programOf[family]}-${flavour}-save`, '-t', table, ...flags])
}

/** runTool() with iptables-legacy. */
export function iptables(family: IpFamily, table: XtTableName, words: string): Promise<string> {
  return runTool({ family, table, flavour: 'legacy' }, words)
}

/** saveTool() with iptables-legacy-save. */
export function save(family: IpFamily, table: XtTableName, ...flags: readonly string[]): Promise<string> {
  return saveTool({ family, table, flavour: 'legacy' }, ...flags)
}

/** Creates the sets that rules of xtables-kinds.ts name. */
async function makeSets(): Promise<void> {
  for (const family of families) {
    const type = `hash:ip,port family ${family === 'ipv4' ? 'inet' : 'inet6'}`
    await mustRun(['sh', '-c', `ipset create -exist ${setName[family]} ${type}`])
  }
}

/** The kernel's tables in the namespace of this process, with their own lock file. */
export async function openRealSubject(): Promise<XtSubject> {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-xtables-'))
  process.env['XTABLES_LOCKFILE'] = join(folder, 'lock')
  await makeSets()
  for (const family of families) {
    for (const table of tables) await iptables(family, table, `-F`).then(() => iptables(family, table, '-X'))
  }
  return {
    flavour: 'legacy',
    open: openRealKernel,
    other: (family, table) => otherProgram({ family, table, flavour: 'legacy' }),
    close: async () => {
      delete process.env['XTABLES_LOCKFILE']
      rmSync(folder, { recursive: true })
    },
  }
}

/** The tables of iptables-nft in the namespace of this process. */
export async function openRealNftSubject(): Promise<XtSubject> {
  await makeSets()
  return {
    flavour: 'nft',
    open: () => {
      const kernel = openRealKernel()
      return {
        xtables: (family, table) => kernel.xtables(family, table, 'nft'),
        close: () => kernel.close(),
      }
    },
    other: (family, table) => otherProgram({ family, table, flavour: 'nft' }),
    close: async () => {
      await mustRun(['nft', 'flush', 'ruleset'])
    },
  }
}

function otherProgram(of: XtablesOfTool): OtherProgram {
  const { family } = of
  const run = async (words: string): Promise<void> => {
    await runTool(of, words)
  }
  return {
    addChain: (chain) => run(`-N ${chain}`),
    append: (chain, rule) => run(`-A ${chain} ${describeXtRule(rule, family)}`),
    prepend: (chain, rule) => run(`-I ${chain} ${describeXtRule(rule, family)}`),
    deleteRule: (chain, index) => run(`-D ${chain} ${index + 1}`),
    flush: (chain) => run(`-F ${chain}`),
    removeChain: (chain) => run(`-X ${chain}`),
    list: async () => {
      const chains: Record<string, string[]> = {}
      for (const line of (await saveTool(of)).split('\n')) {
        const [, chain = '', rule] = /^(?::|-A )(\S+) (.*)$/.exec(line) ?? []
        if (chain === '' || rule === undefined) continue
        if (line.startsWith(':')) chains[chain] = []
        else chains[chain]?.push(rule)
      }
      return chains
    },
  }
}

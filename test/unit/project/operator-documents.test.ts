// docs/errors.md and docs/operations.md name only existing codes, metrics, flags, chains and sentences, and all codes.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { constants } from 'node:os'
import { ipsetErrno } from '../../../src/errors.js'
import { blockLines, canPrint, programText, quotes, withoutComments } from '../../support/program-words.js'
import { flags } from '../../../src/cli/index.js'
import { commands as commandTable, optionsOf } from '../../../src/commands/index.js'
import { treeFiles, treeText } from '../../support/tree.js'

const program = programText()
const documents = ['docs/errors.md', 'docs/operations.md'].map((path) => ({ path, text: treeText(path) }))
const errors = treeText('docs/errors.md')

/** Programs that the documents use. */
const tools = new Set(
  (
    'capsh cat conntrack curl dmesg free getent grep ip ip6tables-legacy-save ipset iptables-legacy iptables-legacy-save ' +
    'iptables-nft-save iptables-save ipvsadm journalctl kill kube-proxy kubectl ls lslocks lsmod modprobe nft node nslookup openssl pidof ps sed ' +
    'sh ss stat sysctl systemctl tail top ulimit viaduct watch'
  ).split(' '),
)

/** Texts of Node, OpenSSL and the API server in Viaduct's lines, and a name. */
const othersWords =
  /\bnode-a\b|listen EADDRINUSE: address already in use|Forbidden: services is .*|self-signed certificate|Hostname\/IP does not match .*/g

/** The first group of each match, sorted, without duplicates. */
function found(text: string, pattern: RegExp): readonly string[] {
  return [...new Set([...text.matchAll(pattern)].map(([, word = '']) => word))].toSorted()
}

function isErrno(name: string): boolean {
  return name in constants.errno || name in ipsetErrno
}

function isCommand(quote: string): boolean {
  return tools.has(quote.split(' ')[0] ?? '')
}

/** The prefix of a chain's name, such as `KUBE-SVC-`. */
function chainPrefix(name: string): string {
  return name.replace(/^(KUBE-(?:SVC|EXT|SEP|SVL|FW)-).*/, '$1')
}

/** Codes without an entry in docs/errors.md. */
function missing(names: readonly string[]): readonly string[] {
  return names.filter((name) => !errors.includes(`\`${name}\``))
}

describe('docs/errors.md', () => {
  it('has every kind of error', () => {
    const kinds = found(program, /class (\w+) extends Error\b/g)
    assert.ok(kinds.includes('KernelError') && kinds.includes('ApiError'))
    assert.deepEqual(missing(kinds), [])
  })

  it('names no other kind', () => {
    const named = found(errors, /`(\w+Error)`/g)
    assert.deepEqual(
      named.filter((name) => !program.includes(`class ${name} extends Error`)),
      [],
    )
  })

  it('has the codes of ApiError, and no other', () => {
    const type = /type ApiErrorCode =([^]*?)\n\n/.exec(withoutComments(treeText('src/api/api-error.ts')))?.[1]
    const section = /\| code of ApiError [^]*?\n\n/.exec(errors)?.[0] ?? ''
    const codes = found(type ?? '', /'(\w+)'/g)
    assert.ok(codes.length > 0)
    assert.deepEqual(found(section, /^\| `(\w+)`/gm), codes)
  })

  it('has every errno that Viaduct names, and every ipset code', () => {
    const named = found(program, /\b(E[A-Z0-9]{3,})\b/g).filter(isErrno)
    assert.ok(named.length > 20)
    assert.deepEqual(missing([...named, ...Object.keys(ipsetErrno)]), [])
  })

  it('has every exit code, and no other', () => {
    const places = treeFiles(
      /^src\/(?:agent\.ts|agent\/.*\.ts|cli\/parse-arguments\.ts|commands\/(?:client|run-command)\.ts)$/,
    ).map((path) => treeText(path))
    const codes = found(places.join('\n'), /(?:exitCode: |return |\? 0 : |0 \| |CommandError\()(\d)\b/g)
    const section = /## Exit codes[^]*?\n## /.exec(errors)?.[0] ?? ''
    assert.deepEqual(found(section, /^\| (\d) \|/gm), codes)
  })
})

describe('the lines of StateReporter', () => {
  it('begin with a capital letter and have at least two words, without a colon', () => {
    const openings = found(program, /(?:problemLine|recovery): ['`]([^'`]+)/g)
    assert.ok(openings.length > 20)
    assert.deepEqual(
      openings.filter((opening) => !/^[A-Z]\w+ [^:]+$/.test(opening)),
      [],
    )
  })
})

describe('the documents for operators', () => {
  it('have every warning, every error and every recovery of the log', () => {
    const openings = found(
      program,
      /(?:\blog\.(?:warn|error)\(\s*|problemLine: |recovery: )['`]([^'`$]+)/g,
    ).map((text) => text.trim())
    const all = documents.map(({ text }) => text).join('\n')
    assert.ok(openings.length > 10)
    assert.deepEqual(
      openings.filter((opening) => !all.includes(opening)),
      [],
    )
  })
})

for (const { path, text } of documents) {
  describe(path, () => {
    it('name only existing error codes', () => {
      const codes = found(quotes(text).join('\n'), /^(E[A-Z]{2,}|IPSET_ERR_\w+)$/gm)
      assert.deepEqual(
        codes.filter((code) => !isErrno(code)),
        [],
      )
    })

    it('name only existing metrics', () => {
      const names = found(text, /\b((?:viaduct|kubeproxy|process|kubernetes)_[a-z_]+)/g)
      assert.deepEqual(
        names.filter((name) => !program.includes(`'${name.replace(/_(?:sum|count|bucket)$/, '')}'`)),
        [],
      )
    })

    it('name only existing flags', () => {
      const names = found(quotes(text).join('\n'), /^--([a-z][\w-]+)/gm)
      const options = commandTable.flatMap(optionsOf)
      const known = new Set([...flags, ...options].map(({ name }) => name).concat('help', 'version'))
      assert.deepEqual(
        names.filter((name) => !known.has(name)),
        [],
      )
    })

    it('name only existing chains and sets', () => {
      const names = found(text, /\b(KUBE-[A-Z0-9-]*[A-Z0-9])/g).map(chainPrefix)
      assert.deepEqual(
        names.filter((name) => !program.includes(name)),
        [],
      )
    })

    it('quote only texts of the program and known commands', () => {
      const sentences = quotes(text).filter((quote) => quote.includes(' ') && !isCommand(quote))
      assert.deepEqual(
        sentences.filter((sentence) => !canPrint(sentence, program)),
        [],
      )
    })

    it('show only output that the program writes', () => {
      const written = /^(?:(?:ERROR|WARN|INFO|DEBUG) +|viaduct: )(.*?)(?= \w+=|$)/gm
      const sentences = found(blockLines(text).join('\n'), written)
      assert.deepEqual(
        sentences.filter((sentence) => !canPrint(sentence.replaceAll(othersWords, '…'), program)),
        [],
      )
    })

    it('show only known commands', () => {
      const commands = found(blockLines(text).join('\n'), /^\$ (?:kubectl exec \S+ \S+ -- )?(\S+)/gm)
      assert.deepEqual(
        commands.filter((command) => !tools.has(command)),
        [],
      )
    })
  })
}

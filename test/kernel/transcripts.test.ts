// Every command on the example shop, in nftables mode in its own namespace. Transcripts go to out/transcripts/commands.txt.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { commands } from '../../src/commands/index.js'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const manifests = join(treeRoot, 'examples/shop')
const mode = ['--proxy-mode=nftables', '--hostname-override=node-a', `--manifests=${manifests}`]

interface Line {
  /** After `viaduct`. FOLDER stands for a folder of the test. */
  readonly words: string
  readonly code: number
  readonly shows: RegExp
}

const lines: readonly Line[] = [
  { words: 'status', code: 0, shows: /^Mode: +nftables$/m },
  { words: 'services', code: 0, shows: /^SERVICE PORT +CLUSTER IP/ },
  { words: 'services shop/web -o yaml', code: 0, shows: /^items:\n/ },
  { words: 'endpoints shop/web', code: 0, shows: /yes: ready/ },
  { words: 'routes shop/web', code: 0, shows: /^Kernel objects:$/m },
  { words: 'connections', code: 0, shows: /^SERVICE PORT +CLIENT / },
  { words: 'explain 10.244.1.10 10.96.0.20:80', code: 0, shows: /^Kernel: +kernel agrees$/m },
  { words: 'explain node 10.96.0.10:53/udp', code: 0, shows: /^Kernel: +kernel agrees$/m },
  { words: 'plan --summary', code: 0, shows: /^mode: nftables\n/ },
  { words: 'diff', code: 0, shows: /^mode: nftables\nno difference$/ },
  { words: 'doctor', code: 1, shows: /^ok +\d+ of \d+: /m },
  { words: 'history', code: 0, shows: / start +.* complete /m },
  { words: 'bundle -f FOLDER/bundle.tar.gz', code: 0, shows: /^$/ },
  { words: 'completion bash', code: 0, shows: /complete / },
  { words: 'hand-over --help', code: 0, shows: /^Usage: / },
]

describe('transcripts of the commands', { timeout: 180_000 }, () => {
  let folder: string
  let node: Namespace
  const transcripts: string[] = []

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-transcripts-'))
    node = await Namespace.create('node')
    await node.must('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'lo')
    // One finding for the doctor.
    await node.must('sh', '-c', 'echo 0 > /proc/sys/net/ipv4/ip_forward')
    const own = [...mode, '--bind-address=192.0.2.1', `--control-socket=${folder}/socket`, '-v=2']
    const agent = node.start(process.execPath, agentFile, ...own)
    await agent.line((line) => /Control socket listens/u.test(line))
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
    mkdirSync(join(treeRoot, 'out/transcripts'), { recursive: true })
    writeFileSync(join(treeRoot, 'out/transcripts/commands.txt'), transcripts.join('\n'))
  })

  for (const { words, code, shows } of lines)
    it(`viaduct ${words}`, async () => {
      const [name = '', ...rest] = words.replace('FOLDER', folder).split(' ')
      const isPlain = ['completion', 'hand-over'].includes(name)
      const more = name === 'plan' || name === 'doctor' ? mode : []
      const socket = isPlain || more.length > 0 ? [] : [`--socket=${folder}/socket`]
      const result = await node.run(process.execPath, agentFile, name, ...rest, ...more, ...socket)
      transcripts.push(`$ viaduct ${words}\n${result.stdout}\n${result.stderr}`.replaceAll(folder, 'FOLDER'))
      assert.equal(result.code, code, result.stderr)
      assert.match(result.stdout, shows)
      assert.ok(!result.stdout.includes(treeRoot), 'the transcript names a path of this machine')
    })

  it('have all commands', () => {
    const names = new Set<string>(lines.map(({ words }) => words.split(' ', 1).join('')))
    assert.deepEqual(names, new Set(commands.map(({ name }) => name)))
  })
})

// The script of `viaduct completion bash`, in bash, with a program in place of viaduct.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { commands, runCommand } from '../../../src/commands/index.js'

const names = commands.map(({ name }) => name)
const services = ['default/api', 'default/web']

/** The script of a shell. */
async function scriptFor(shell: string): Promise<string> {
  let text = ''
  const code = await runCommand(['completion', shell], {
    out: (more) => void (text += String(more)),
    err: assert.fail,
  })
  assert.equal(code, 0)
  return text
}

/** The words that bash offers for the last one of these. `=` is a word of its own, as in bash. */
async function offered(words: readonly string[]): Promise<readonly string[]> {
  const table = ['SERVICE', ...services.flatMap((name) => [`${name}:a/TCP x`, `${name}:b/UDP x`])].join('\\n')
  const program = `viaduct() { [ "$*" = services ] && printf '${table}\\n'; }`
  const line = `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _viaduct; printf '%s\\n' "\${COMPREPLY[@]}"`
  const script = `${program}\n${await scriptFor('bash')}\n${line}`
  const { status, stdout, stderr } = spawnSync(
    'bash',
    ['--norc', '-c', script, 'bash', 'viaduct', ...words],
    {
      encoding: 'utf8',
    },
  )
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
  return stdout.split('\n').filter((word) => word !== '')
}

describe('completion in bash', () => {
  const formats = ['table', 'json', 'yaml']
  const cases: readonly (readonly [words: readonly string[], offered: readonly string[]])[] = [
    [[''], [...names, 'help']],
    [['st'], ['status']],
    [['help', 'sta'], ['status']],
    [
      ['status', '-'],
      ['--output', '-o', '--socket', '--help'],
    ],
    [['status', '-o', ''], formats],
    [['status', '--output', '='], formats],
    [['status', '--output', '=', 'j'], ['json']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [['services', ''], services],
    [['endpoints', 'default/w'], ['default/web']],
    [['connections', '--service', ''], services],
    [['connections', '--service', '=', 'default/a'], ['default/api']],
    // Names of files: bash adds them.
    [['status', '--socket', ''], []],
    [['status', ''], []],
    [['none', ''], []],
  ]
  for (const [words, expected] of cases)
    it(`of ${JSON.stringify(words.join(' '))}`, async () => assert.deepEqual(await offered(words), expected))
})

describe('completion in fish', () => {
  it('has each command, its options, and help', async () => {
    const lines = (await scriptFor('fish')).split('\n')
    for (const name of [...names, 'help'])
      assert.equal(lines.filter((line) => line.includes(`-n __fish_use_subcommand -f -a ${name} `)).length, 1)
    const ofStatus = lines.filter((line) => line.includes("__fish_seen_subcommand_from status'"))
    assert.deepEqual(
      ofStatus.map((line) => line.replace(/.*status'/u, '').replace(/ -d .*/u, '')),
      [' -f', " -l output -s o -r -f -a 'table json yaml'", ' -l socket -r -F'],
    )
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseDoctorArguments } from '../../../src/cli/index.js'

const usual = { output: 'table', isAll: false, socket: '/default', watchMs: undefined, flags: [] }

describe('the arguments of viaduct doctor', () => {
  const cases = [
    { words: [], found: usual },
    { words: ['--all', '-o', 'json'], found: { ...usual, isAll: true, output: 'json' } },
    { words: ['-ojson'], found: { ...usual, output: 'json' } },
    { words: ['-o=yaml'], found: { ...usual, output: 'yaml' } },
    { words: ['--output=yaml'], found: { ...usual, output: 'yaml' } },
    { words: ['--socket', '/a'], found: { ...usual, socket: '/a' } },
    { words: ['--socket=/a'], found: { ...usual, socket: '/a' } },
    { words: ['--watch'], found: { ...usual, watchMs: 5000 } },
    { words: ['--watch', '--interval=1.5'], found: { ...usual, watchMs: 1500 } },
    { words: ['--interval=7'], found: usual },
    {
      words: ['--config', 'f', '--all', '--proxy-mode=ipvs', '-v', '2'],
      found: { ...usual, isAll: true, flags: ['--config', 'f', '--proxy-mode=ipvs', '-v', '2'] },
    },
    { words: ['-o', 'xml'], found: { problem: '-o: must be one of table, json, yaml, not "xml"' } },
    { words: ['-o'], found: { problem: '-o: must be one of table, json, yaml, not ""' } },
    { words: ['--watch', '-ojson'], found: { problem: '--watch: prints text, and takes no -o json' } },
    { words: ['--interval=0'], found: { problem: '--interval: must be 1 to 3600 seconds, not "0"' } },
    { words: ['--interval', 'x'], found: { problem: '--interval: must be 1 to 3600 seconds, not "x"' } },
  ]
  for (const { words, found } of cases) {
    it(words.join(' '), () => {
      assert.deepEqual(parseDoctorArguments(words, '/default'), found)
    })
  }
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { html } from '../../../src/page/html.js'
import { isOwnHost } from '../../../src/page/status-page.js'

describe('html', () => {
  it('escapes every value that is not HTML', () => {
    const attack = `"><script>alert('x')</script>&`
    assert.equal(
      html`<a title="${attack}">${[attack, 1, html`<b>${'<'}</b>`]}</a>`.text,
      '<a title="&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;">&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;1<b>&lt;</b></a>',
    )
  })
})

describe('the host check', () => {
  const cases = [
    ['127.0.0.1:10249', true],
    ['192.0.2.7', true],
    ['[::1]:10249', true],
    ['LOCALHOST:80', true],
    ['Node-A:10249', true],
    ['evil.example:10249', false],
    ['127.0.0.1.evil.example', false],
    ['localhost.evil.example', false],
    ['node-a.evil.example:10249', false],
    ['[evil]:80', false],
    ['[::1]evil', false],
    ['localhost:80:80', false],
    ['', false],
    [undefined, false],
  ] as const
  for (const [host, isOwn] of cases)
    it(`${isOwn ? 'accepts' : 'refuses'} ${host ?? 'a request without a host'}`, () =>
      assert.equal(isOwnHost(host, 'node-a'), isOwn))
})

// The status page of the shipped agent in headless Chromium. Screenshots go to out/page/.
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'puppeteer-core'
import { ask, connected, readUntil } from '../support/http.js'
import { treeRoot } from '../support/tree.js'
import {
  assertReadable,
  isLive,
  openBrowser,
  openPage,
  PageAgent,
  savePicture,
  serviceText,
  sliceText,
} from './browser.js'

const names = Array.from({ length: 120 }, (_, index) => `app-${String(index).padStart(3, '0')}`)
const apps = names
  .map((name, index) => {
    const endpoints = { [`10.244.1.${index + 1}`]: true, [`10.244.2.${index + 1}`]: index % 7 !== 3 }
    return serviceText(name, `10.96.1.${index + 1}`) + sliceText(name, endpoints)
  })
  .join('')
/** The agent reports this file, and applies the others. */
const broken = serviceText('broken', 'not-an-address')

async function texts(page: Page, selector: string): Promise<readonly string[]> {
  return await page.$$eval(selector, (elements) => elements.map((element) => element.textContent ?? ''))
}

describe('the status page in Chromium', { timeout: 120_000 }, () => {
  let agent: PageAgent
  let browser: Browser

  before(async () => {
    agent = await PageAgent.start({ 'apps.yaml': apps, 'broken.yaml': broken })
    browser = await openBrowser()
  })

  after(async () => {
    await browser.close()
    await agent.close()
  })

  it('has tables, search and pages without JavaScript', async () => {
    const { page } = await openPage(browser, { hasScript: false })
    assert.equal((await texts(page, '.services tbody th')).length, 50)
    await page.type('#q', 'app-07')
    await Promise.all([page.waitForNavigation(), page.click('form button')])
    assert.deepEqual(
      await texts(page, '.services tbody th'),
      names.slice(70, 80).map((name) => `shop/${name}`),
    )
    await page.goto('http://127.0.0.1:10249/ui?q=10.244.2.9')
    assert.deepEqual(await texts(page, '.services tbody th'), ['shop/app-008'])
    await page.goto('http://127.0.0.1:10249/ui?page=3')
    assert.deepEqual(
      await texts(page, '.services tbody th'),
      names.slice(100).map((name) => `shop/${name}`),
    )
    await page.close()
  })

  it('shows problems before everything else', async () => {
    const { page } = await openPage(browser, { hasScript: false })
    assert.match((await texts(page, 'main > section'))[0] ?? '', /Problems: 1[^]*not-an-address/u)
    const states = await texts(page, '#summary td:nth-of-type(1)')
    assert.deepEqual(
      states.map((state) => state.trim()),
      ['incomplete', 'incomplete'],
    )
    await page.close()
  })

  it('shows the cause and the stages of each pass', async () => {
    const { page } = await openPage(browser, { hasScript: false })
    const passes = `[aria-label='Table of passes'] tbody tr`
    const [stages = ''] = await texts(page, `${passes}:last-child td:nth-of-type(5)`)
    assert.match(
      stages.replaceAll(/\s+/gu, ' '),
      /^ waited [\d.]+ m?s compile [\d.]+ m?s plan [\d.]+ m?s kernel [\d.]+ m?s $/u,
    )
    const [cause = ''] = await texts(page, `${passes}:last-child td:nth-of-type(6)`)
    // Two objects of each of 120 applications, and the Node, which is the machine.
    assert.match(cause, /For: Service shop\/app-000, EndpointSlice shop\/app-000\S*, .* and 233 more/u)
    assert.match(cause, /Changed: shop\/app-000:\S+, .* and 112 more/u)
    const table = await page.$(`[aria-label='Table of passes']`)
    mkdirSync(join(treeRoot, 'out/page'), { recursive: true })
    await table?.screenshot({ path: join(treeRoot, 'out/page/passes.png') })
    await page.close()
  })

  it('follows a changed endpoint without a reload, and keeps what is open', async () => {
    const { page, complaints } = await openPage(browser)
    await page.waitForFunction(isLive)
    await page.type('#q', 'app-002')
    await page.waitForFunction(`document.querySelectorAll('.services tbody th').length === 1`)
    await page.click('summary')
    await page.evaluate(`window.isSamePage = true`)
    const slice = sliceText('app-002', { '10.244.9.9': true })
    agent.write(
      'apps.yaml',
      apps.replace(sliceText('app-002', { '10.244.1.3': true, '10.244.2.3': true }), slice),
    )
    await page.waitForFunction(`document.querySelector('.services')?.textContent.includes('10.244.9.9')`)
    assert.equal(await page.evaluate(`document.querySelector('details').open`), true)
    assert.equal(await page.evaluate(`window.isSamePage`), true)
    assert.equal(await page.evaluate(`document.getElementById('q').value`), 'app-002')
    assert.deepEqual(complaints, [])
    await page.close()
  })

  for (const isPhone of [false, true]) {
    for (const isDark of [false, true]) {
      const name = `${isPhone ? 'phone' : 'desktop'}-${isDark ? 'dark' : 'light'}`
      it(`is readable and has no finding of axe: ${name}`, async () => {
        const { page, complaints } = await openPage(browser, { isPhone, isDark })
        await page.waitForFunction(isLive)
        await savePicture(page, name)
        await savePicture(page, `${name}-whole`, { fullPage: true })
        assert.deepEqual(complaints, [])
        await assertReadable(page)
        await page.close()
      })
    }
  }

  it('sends its policy, and refuses the host of another site', async () => {
    const { status, headers } = await ask(10249, { path: '/ui' })
    assert.equal(status, 200)
    assert.match(
      String(headers['content-security-policy']),
      /default-src 'none'; script-src 'self'; style-src 'self'/u,
    )
    for (const path of ['/ui', '/ui/events', '/ui/app.js'])
      assert.equal((await ask(10249, { path, headers: { host: 'evil.example:10249' } })).status, 421)
  })

  // Before, Node's server took the first of several.
  it('refuses a request that names two hosts, and other forms of a host', async () => {
    const good = 'Host: 127.0.0.1:10249'
    for (const [target, hosts, code] of [
      ['/ui', [good], 200],
      ['/ui', ['Host: [::1]:10249'], 200],
      ['/ui', ['Host: LOCALHOST'], 200],
      ['/ui', ['Host: node-a:1'], 200],
      ['/ui', [good, 'X-Forwarded-Host: evil.example'], 200],
      ['/ui', [good, 'Host: evil.example'], 421],
      ['/ui', ['Host: evil.example', good], 421],
      ['/ui', ['Host: evil.example', 'X-Forwarded-Host: 127.0.0.1'], 421],
      ['/ui', ['Host: localhost.'], 421],
      ['/ui', ['Host: 127.0.0.1.evil.example'], 421],
      ['/ui', ['Host: 127.0.0.1@evil.example'], 421],
      ['/ui', ['Host: [evil.example]'], 421],
      ['/ui', ['Host: ::1'], 421],
      ['/ui', ['Host: 127.1'], 421],
      ['/ui', ['Host:'], 421],
      ['/ui', [], 400],
      ['http://evil.example/ui', [good], 421],
      ['http://127.0.0.1@evil.example/ui', [good], 421],
      ['http://127.0.0.1:10249/ui', [good], 200],
      // Longer than the headers may be. The server reads it at once, so it does not reset the connection.
      [`/ui?q=${'x'.repeat(40_000)}`, [good], 431],
    ] as const) {
      const socket = await connected(10249)
      socket.write([`GET ${target} HTTP/1.1`, ...hosts, 'Connection: close', '', ''].join('\r\n'))
      const reply = await readUntil(socket, undefined)
      assert.equal(reply.slice(0, 12), `HTTP/1.1 ${code}`, `${target.slice(0, 40)} ${hosts.join(', ')}`)
      socket.destroy()
    }
  })
})

// The status page of an agent that starts, stops, hangs and recovers, and what stays while the page changes. Pictures go to out/page/.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'puppeteer-core'
import { freePort } from '../support/http.js'
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

const web = serviceText('web', '10.96.1.1') + sliceText('web', { '10.244.1.1': true })
const broken = serviceText('broken', 'not-an-address')
const isLost = `document.getElementById('live').textContent.startsWith('Not up to date')`
const hasNoProblems = `document.getElementById('problems').textContent.includes('No problems')`

function shows(text: string): string {
  return `document.body.textContent.includes(${JSON.stringify(text)})`
}

/** Makes a change that gives the page one more Service, and waits until it is shown. */
async function addService(agent: PageAgent, page: Page, name: string, ip: string): Promise<void> {
  agent.write(`${name}.yaml`, serviceText(name, ip))
  await page.waitForFunction(shows(`shop/${name}`))
}

describe('the status page while the agent changes', { timeout: 180_000 }, () => {
  let agent: PageAgent
  let browser: Browser

  before(async () => {
    agent = await PageAgent.start({ 'web.yaml': web })
    browser = await openBrowser()
  })

  after(async () => {
    await browser.close()
    await agent.close()
  })

  // Before, a table lost the focus, its place and the selection with each pass.
  it('keeps focus, sideways scrolling and selected text while it follows changes', async () => {
    const { page } = await openPage(browser)
    await page.setViewport({ width: 700, height: 900 })
    await page.waitForFunction(isLive)
    await page.evaluate(`document.getElementById('pass-rows').scrollLeft = 40`)
    await page.focus('#pass-rows')
    await addService(agent, page, 'first', '10.96.1.2')
    assert.equal(await page.evaluate(`document.activeElement.id`), 'pass-rows')
    assert.equal(await page.evaluate(`document.getElementById('pass-rows').scrollLeft`), 40)
    await page.evaluate(`getSelection().selectAllChildren(document.querySelector('.services code'))`)
    agent.write('second.yaml', serviceText('second', '10.96.1.3'))
    await page.waitForFunction(shows('Waits for the end of the text selection'))
    assert.equal(await page.evaluate(`getSelection().toString()`), '10.96.1.2:80')
    await page.evaluate(`getSelection().removeAllRanges()`)
    await page.waitForFunction(`${shows('shop/second')} && ${isLive}`)
    await page.close()
  })

  it('follows a problem that comes and goes', async () => {
    const { page } = await openPage(browser)
    await page.waitForFunction(`${isLive} && ${hasNoProblems}`)
    await savePicture(page, 'no-problems')
    await assertReadable(page)
    agent.write('broken.yaml', broken)
    await page.waitForFunction(shows('not-an-address'))
    agent.remove('broken.yaml')
    await page.waitForFunction(hasNoProblems)
    await page.close()
  })

  it('says that it is not up to date when the agent stops, and follows the next agent', async () => {
    const { page } = await openPage(browser)
    await page.waitForFunction(isLive)
    await agent.stop()
    await page.waitForFunction(isLost)
    await page.evaluate(`scrollTo(0, 1000)`)
    await savePicture(page, 'agent-stopped')
    await assertReadable(page)
    agent.write('third.yaml', serviceText('third', '10.96.1.4'))
    await agent.startAgain()
    await page.waitForFunction(`${isLive} && ${shows('shop/third')}`)
    await page.close()
  })

  // Before, the page of an agent that hangs said Live for ever.
  it('says that it is not up to date when the agent hangs, and recovers', async () => {
    const { page } = await openPage(browser)
    await page.waitForFunction(isLive)
    agent.signal('SIGSTOP')
    await page.waitForFunction(isLost)
    agent.signal('SIGCONT')
    await page.waitForFunction(isLive)
    await page.close()
  })

  // Before, a browser, which has six connections per host, could not load the seventh tab.
  it('has no connection in a hidden tab', async () => {
    const tabs: Page[] = []
    for (let tab = 0; tab < 7; tab++) {
      const { page } = await openPage(browser)
      await page.waitForFunction(isLive)
      tabs.push(page)
    }
    const [first, last] = [tabs[0], tabs.at(-1)]
    assert.ok(first !== undefined && last !== undefined)
    assert.equal(await first.evaluate(`document.hidden`), true)
    await addService(agent, last, 'fourth', '10.96.1.5')
    assert.equal(await first.evaluate(shows('shop/fourth')), false)
    await first.bringToFront()
    await first.waitForFunction(`${isLive} && ${shows('shop/fourth')}`)
    for (const page of tabs) await page.close()
  })

  it('has the time of its content without JavaScript, and fits paper and a zoom of 200 %', async () => {
    const { page } = await openPage(browser, { hasScript: false })
    const made = await page.$eval('#made', (element) => element.textContent)
    assert.match(made ?? '', /^As of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/u)
    await page.setViewport({ width: 640, height: 450, deviceScaleFactor: 2 })
    await savePicture(page, 'zoom-200')
    await page.emulateMediaType('print')
    await page.setViewport({ width: 720, height: 1000 })
    await savePicture(page, 'print', { fullPage: true })
    for (const selector of ['form', '.skip'])
      assert.equal(await page.$eval(selector, (element) => element.checkVisibility()), false, selector)
    await page.close()
  })

  it('is readable and has no finding of axe in each state of the search', async () => {
    for (const [name, query, isPhone] of [
      ['filtered', '?q=web', true],
      ['no-result', '?q=%3Cscript%3Ealert(1)%3C/script%3E', false],
    ] as const) {
      const { page, complaints } = await openPage(browser, { query, isPhone })
      await page.waitForFunction(isLive)
      await page.evaluate(`for (const each of document.querySelectorAll('details')) each.open = true`)
      await savePicture(page, name, { fullPage: true })
      await assertReadable(page)
      assert.deepEqual(complaints, [])
      await page.close()
    }
  })

  it('can be used with the keyboard alone', async () => {
    const { page } = await openPage(browser)
    await page.waitForFunction(isLive)
    const focused = async (): Promise<unknown> =>
      await page.evaluate(
        `document.activeElement.id || document.activeElement.className || document.activeElement.tagName`,
      )
    const order: unknown[] = []
    for (let key = 0; key < 6; key++) {
      await page.keyboard.press('Tab')
      order.push(await focused())
    }
    assert.deepEqual(order, ['skip', 'families', 'q', 'BUTTON', 'service-rows', 'of shop/web http TCP IPv4'])
    await page.keyboard.press('Enter')
    assert.equal(await page.evaluate(`document.querySelector('details').open`), true)
    await page.keyboard.press('Tab')
    assert.equal(await focused(), 'pass-rows')
    await page.close()
  })
})

describe('the status page of an agent without objects', { timeout: 60_000 }, () => {
  let browser: Browser

  before(async () => {
    browser = await openBrowser()
  })

  after(async () => await browser.close())

  async function examine(agent: PageAgent, name: string, expected: RegExp): Promise<void> {
    try {
      for (const isPhone of [false, true]) {
        const { page, complaints } = await openPage(browser, { isPhone })
        await page.waitForFunction(isLive)
        assert.match(await page.$eval('main', (main) => main.textContent ?? ''), expected)
        await savePicture(page, `${name}-${isPhone ? 'phone' : 'desktop'}`, { fullPage: true })
        await assertReadable(page)
        assert.deepEqual(complaints, [])
        await page.close()
      }
    } finally {
      await agent.close()
    }
  }

  it('is readable on a node without Services', async () => {
    const node = 'apiVersion: v1\nkind: Node\nmetadata: { name: node-a }\n'
    await examine(
      await PageAgent.start({ 'node.yaml': node }),
      'empty',
      /No problems[^]*in sync[^]*No Services are known/u,
    )
  })

  it('is readable while the API server does not answer', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'viaduct-page-'))
    const server = `http://127.0.0.1:${await freePort()}`
    const kubeconfig = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'a', cluster: { server } }],
      users: [{ name: 'a', user: {} }],
      contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
      'current-context': 'a',
    }
    writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig))
    const agent = await PageAgent.start({}, `--kubeconfig=${join(folder, 'kubeconfig')}`)
    await examine(
      agent,
      'starting',
      /Problems: [1-9][^]*starting[^]*No Services are known[^]*No pass has ended/u,
    )
    rmSync(folder, { recursive: true })
  })
})

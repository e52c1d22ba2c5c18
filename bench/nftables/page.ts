// Opens the status page of the agent in its network namespace in headless Chromium, repeatedly. Prints a line with the times of the loads,
// waits for a line on its input, and prints a line with the memory of the last tab:
//   node page.js LOADS
import { readFileSync } from 'node:fs'
import { once } from 'node:events'
import type { Browser, Page } from 'puppeteer-core'
import { address, openBrowser } from '../../test/page/browser.js'
import { millisecondsBetween } from '../stage/figures.js'

const loads = Number(process.argv[2])

/** Milliseconds from the navigation until the table of Services is visible. */
async function loadMs(page: Page): Promise<number> {
  const startNs = process.hrtime.bigint()
  await page.goto(address, { waitUntil: 'domcontentloaded' })
  await page.waitForSelector('.services tbody tr', { visible: true })
  return millisecondsBetween(startNs, process.hrtime.bigint())
}

/** Mebibytes that only this process has, from /proc/PID/smaps_rollup. */
function privateMiB(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  const sizes = [...text.matchAll(/^Private_\w+: +(\d+) kB$/gm)].map(([, size]) => Number(size))
  return sizes.reduce((sum, size) => sum + size, 0) / 1024
}

/** Process ids of the tabs. */
async function tabs(browser: Browser): Promise<readonly number[]> {
  const session = await browser.target().createCDPSession()
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  await session.detach()
  return processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => id)
}

const browser = await openBrowser()
try {
  const blank = await browser.newPage()
  const blankPids = await tabs(browser)
  const blankMiB = Math.max(...blankPids.map(privateMiB))
  await blank.close()
  const times: number[] = []
  let page = await browser.newPage()
  times.push(await loadMs(page))
  while (times.length < loads) {
    await page.close()
    page = await browser.newPage()
    times.push(await loadMs(page))
  }
  process.stdout.write(`${JSON.stringify(times)}\n`)
  await once(process.stdin, 'data')
  const { JSHeapUsedSize = Number.NaN } = await page.metrics()
  const tabMiB = Math.max(...(await tabs(browser)).map(privateMiB))
  process.stdout.write(`${JSON.stringify({ heapMiB: JSHeapUsedSize / 1024 / 1024, tabMiB, blankMiB })}\n`)
} finally {
  await browser.close()
}
process.stdin.destroy()

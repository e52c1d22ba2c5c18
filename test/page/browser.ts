// Headless Chromium and a running agent, for the tests of the status page. They share the network namespace of the test's process.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import axe from 'axe-core'
import { type Browser, launch, type Page } from 'puppeteer-core'
import { serverListens } from '../support/page-question.js'
import { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

export const address = 'http://127.0.0.1:10249/ui'

/** An expression for the browser: the page gets server-sent events. */
export const isLive = `document.getElementById('live').textContent === 'Live'`

export async function openBrowser(): Promise<Browser> {
  // The processes of the sandbox need rights that root in a container lacks.
  const args = ['--no-sandbox', '--disable-dev-shm-usage', '--no-proxy-server', '--disable-gpu']
  return await launch({ executablePath: '/usr/bin/chromium', args })
}

/** A page, with all errors and warnings of its console. */
export async function openPage(
  browser: Browser,
  options: {
    readonly hasScript?: boolean
    readonly isPhone?: boolean
    readonly isDark?: boolean
    /** After the page's address. */
    readonly query?: string
  } = {},
): Promise<{ readonly page: Page; readonly complaints: readonly string[] }> {
  const { hasScript = true, isPhone = false, isDark = false, query = '' } = options
  const page = await browser.newPage()
  const complaints: string[] = []
  page.on('console', (message) => {
    if (['error', 'warn'].includes(message.type())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  await page.setJavaScriptEnabled(hasScript)
  await page.setViewport(isPhone ? { width: 360, height: 800, isMobile: true } : { width: 1280, height: 900 })
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: isDark ? 'dark' : 'light' }])
  const reply = await page.goto(address + query)
  assert.equal(reply?.status(), 200)
  return { page, complaints }
}

/** Saves a picture in out/page/. */
export async function savePicture(page: Page, name: string, options: { readonly fullPage?: boolean } = {}) {
  const folder = join(treeRoot, 'out/page')
  mkdirSync(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}.png`), ...options })
}

/** The page fits the width of its window, and axe finds nothing. */
export async function assertReadable(page: Page): Promise<void> {
  const sideways = await page.evaluate(
    `document.documentElement.scrollWidth - document.documentElement.clientWidth`,
  )
  assert.equal(sideways, 0, 'the page scrolls sideways')
  // The policy of the page forbids an inline script. The debugger's evaluation is no inline script.
  await page.evaluate(axe.source)
  const findings: unknown = await page.evaluate(
    `axe.run().then(({ violations }) => violations.map(({ id, impact, nodes }) => [id, impact, nodes[0].html]))`,
  )
  assert.deepEqual(findings, [])
}

/** An agent in iptables mode on a folder of manifests. */
export class PageAgent {
  readonly #folder: string
  readonly #source: string
  #program: Program

  private constructor(folder: string, source: string) {
    this.#folder = folder
    this.#source = source
    this.#program = this.#run()
  }

  /** `source`: the flag that names the source of the objects; absent: the manifests. */
  static async start(manifests: Readonly<Record<string, string>>, source?: string): Promise<PageAgent> {
    const folder = mkdtempSync(join(tmpdir(), 'viaduct-page-'))
    mkdirSync(join(folder, 'manifests'))
    for (const [name, text] of Object.entries(manifests)) writeFileSync(join(folder, 'manifests', name), text)
    const agent = new PageAgent(folder, source ?? `--manifests=${join(folder, 'manifests')}`)
    await serverListens(agent.#program, 'metrics')
    return agent
  }

  #run(): Program {
    return new Program([
      process.execPath,
      join(treeRoot, 'dist/agent.js'),
      this.#source,
      '--hostname-override=node-a',
      '--proxy-mode=iptables',
      '--iptables-flavour=legacy',
      '--control-socket=',
      '-v=2',
    ])
  }

  signal(signal: NodeJS.Signals): void {
    this.#program.signal(signal)
  }

  async stop(): Promise<void> {
    this.signal('SIGTERM')
    await this.#program.ended
  }

  /** Starts the agent again, after `stop`. */
  async startAgain(): Promise<void> {
    this.#program = this.#run()
    await serverListens(this.#program, 'metrics')
  }

  /** Removes a manifest. */
  remove(name: string): void {
    rmSync(join(this.#folder, 'manifests', name))
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.#folder, 'manifests', name), text)
  }

  async close(): Promise<void> {
    await this.stop()
    rmSync(this.#folder, { recursive: true })
  }
}

export function serviceText(name: string, ip: string, port = 80): string {
  return `---
apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: shop }
spec: { clusterIP: ${ip}, ports: [{ name: http, port: ${port}, protocol: TCP }] }
`
}

export function sliceText(name: string, endpoints: Readonly<Record<string, boolean>>): string {
  const list = Object.entries(endpoints).map(
    ([ip, isReady]) => `  - { addresses: ["${ip}"], nodeName: node-b, conditions: { ready: ${isReady} } }\n`,
  )
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}-1, namespace: shop, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [{ name: http, port: 8080, protocol: TCP }]
endpoints:
${list.join('')}`
}

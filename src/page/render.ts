// The document of the status page.
import type {
  EndpointEntry,
  FamilyStatus,
  PassSnapshot,
  PortEntry,
  ProblemSnapshot,
  ServiceEntry,
  ServicePage,
  StatusSnapshot,
} from '../inspect/index.js'
import { buildText } from '../version.js'
import { type Content, html, type Html } from './html.js'
import { driftPlot, latencyPlot, milliseconds, type Sample } from './samples.js'

interface PageContent {
  readonly status: StatusSnapshot
  /** Unix milliseconds. */
  readonly nowMs: number
  readonly found: ServicePage
  /** The text of the search; empty: all Services. */
  readonly search: string
  readonly samples: readonly Sample[]
  /** Oldest first. */
  readonly passes: readonly PassSnapshot[]
}

/** The whole document. The script replaces the elements with `data-live` after a change. */
export function render({ status, nowMs, found, search, samples, passes }: PageContent): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>Viaduct on ${status.node}</title>
        <link rel="icon" href="ui/icon.svg" />
        <link rel="stylesheet" href="ui/style.css" />
        <script src="ui/app.js" defer></script>
      </head>
      <body>
        <a class="skip" href="#services">Skip to the Services</a>
        <header>
          <h1>Viaduct <span class="node">on ${status.node}</span></h1>
          <p id="made" class="note" data-live>As of ${time(new Date(nowMs).toISOString())}</p>
          <p id="live" class="note" role="status"></p>
        </header>
        <main>
          <section id="problems" data-live aria-live="polite" aria-labelledby="problems-title">
            ${problemSection(status)}
          </section>
          <section id="summary" data-live aria-labelledby="summary-title">${summarySection(status)}</section>
          <section id="hour" data-live aria-labelledby="hour-title">
            <h2 id="hour-title">Last hour</h2>
            <div class="plots">${latencyPlot(samples)}${driftPlot(samples)}</div>
          </section>
          <section id="services" aria-labelledby="services-title" tabindex="-1">
            <h2 id="services-title">Services and endpoints</h2>
            <form action="ui" method="get" role="search">
              <label for="q">Search by name, VIP or endpoint address</label>
              <span class="field"
                ><input
                  id="q"
                  name="q"
                  type="search"
                  value="${search}"
                  maxlength="253"
                  autocomplete="off"
                /><button>Search</button></span
              >
            </form>
            <div id="found" data-live>${serviceTable(found, search)}</div>
          </section>
          <section id="passes" data-live aria-labelledby="passes-title">${passSection(passes)}</section>
        </main>
      </body>
    </html> `.text
}

function problemSection({ problems, problemCount, source }: StatusSnapshot): Html {
  const notShown = problemCount - problems.length
  if (problemCount === 0 && source.kindsNotWatched === 0)
    return html`<h2 id="problems-title" class="good">No problems</h2>`
  return html`<h2 id="problems-title" class="bad">Problems: ${Math.max(problemCount, 1)}</h2>
    <ul class="problems">
      ${problems.map(problemItem)}
    </ul>
    ${source.kindsNotWatched > 0 ? html`<p>Kinds of objects that cannot be watched: ${source.kindsNotWatched}. The kernel keeps its state.</p>` : ''}
    ${notShown > 0 ? html`<p>And ${notShown} more: see the log.</p>` : ''}`
}

function problemItem({ level, problem, fields }: ProblemSnapshot): Html {
  const named = Object.entries(fields)
    .filter(([, value]) => !problem.includes(value))
    .map(([key, value]) => `${key}: ${value}`)
  return html`<li class="${level}">
    <span class="tag">${level === 'error' ? 'error' : 'warning'}</span> ${problem}
    ${named.length === 0 ? '' : html`<p class="note">${named.join(', ')}</p>`}
  </li>`
}

function summarySection(status: StatusSnapshot): Html {
  const { mode, uptimeSeconds, families, source, drift } = status
  const configured =
    mode.active === mode.configured || mode.configured === '' ? '' : ` (configured: ${mode.configured})`
  const driftTotal = drift.reduce((sum, { count }) => sum + count, 0)
  return html`<h2 id="summary-title" class="hidden">Summary</h2>
    <dl class="cards">
      <div>
        <dt>Mode</dt>
        <dd>${mode.active}${configured}</dd>
      </div>
      <div>
        <dt>Source</dt>
        <dd>${source.kind === 'api' ? 'API server' : 'manifests'}</dd>
      </div>
      <div>
        <dt>Objects not applied</dt>
        <dd class="${source.objectsNotApplied > 0 ? 'bad' : ''}">${source.objectsNotApplied}</dd>
      </div>
      <div>
        <dt>Drift since the start</dt>
        <dd class="${driftTotal > 0 ? 'warning' : ''}">${driftTotal}</dd>
      </div>
      <div>
        <dt>Running for</dt>
        <dd>${duration(uptimeSeconds)}</dd>
      </div>
      <div>
        <dt>Version</dt>
        <dd>${buildText(status)}</dd>
      </div>
    </dl>
    <div class="scroll" id="families" tabindex="0" role="region" aria-label="Table of IP families">
      <table class="families">
        <thead>
          <tr>
            <th scope="col">Family</th>
            <th scope="col">State</th>
            <th scope="col" class="number">Service ports</th>
            <th scope="col" class="number">Endpoints</th>
            <th scope="col">Last complete sync</th>
          </tr>
        </thead>
        <tbody>
          ${families.map(
            ({ family, isInForce, hasRefusals, isHealthy, servicePorts, endpoints, lastSync }) =>
              html`<tr>
                <th scope="row">${family}</th>
                <td data-label="State">
                  ${familyState({ isInForce, hasRefusals, isHealthy }, source.objectsNotApplied)}
                </td>
                <td data-label="Service ports" class="number">${servicePorts}</td>
                <td data-label="Endpoints" class="number">${endpoints}</td>
                <td data-label="Last sync">${lastSync === undefined ? 'none' : time(lastSync)}</td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>`
}

function familyState(
  { isInForce, hasRefusals, isHealthy }: Pick<FamilyStatus, 'isInForce' | 'hasRefusals' | 'isHealthy'>,
  objectsNotApplied: number,
): Html {
  if (!isHealthy) return html`<span class="bad">late</span>`
  if (hasRefusals) return html`<span class="warning">incomplete</span>`
  if (isInForce) return html`<span class="good">in sync</span>`
  return html`<span class="warning">${objectsNotApplied > 0 ? 'incomplete' : 'starting'}</span>`
}

function serviceTable({ services, matchCount, page, pageCount }: ServicePage, search: string): Html {
  const counted = matchCount === 1 ? '1 Service' : `${matchCount} Services`
  if (matchCount === 0)
    return html`<p>${search === '' ? 'No Services are known.' : 'No Service matches.'}</p>`
  return html`<p class="note">${counted}</p>
    <div class="scroll" id="service-rows" tabindex="0" role="region" aria-label="Table of Services">
      <table class="services">
        <thead>
          <tr>
            <th scope="col">Service</th>
            <th scope="col">Port</th>
            <th scope="col">Addresses</th>
            <th scope="col">Endpoints</th>
          </tr>
        </thead>
        <tbody>
          ${services.map(serviceRows)}
        </tbody>
      </table>
    </div>
    ${pageLinks(page, pageCount, search)}`
}

function serviceRows({ service, ports }: ServiceEntry): Content {
  return ports.map((port, index) => {
    const name = index === 0 ? html`<th scope="rowgroup" rowspan="${ports.length}">${service}</th>` : ''
    const label = [port.name, port.protocol, port.family].filter((part) => part !== '').join(' ')
    return html`<tr>
      ${name}
      <td>
        ${label}${port.nodePort === 0 ? '' : html`<br /><span class="note">node port ${port.nodePort}</span>`}
      </td>
      <td>${addressCell(port)}</td>
      <td>${endpointCell(`${service} ${label}`, port)}</td>
    </tr>`
  })
}

function addressCell({ addresses }: PortEntry): Content {
  // A Service without a cluster IP may have node ports alone.
  if (addresses.length === 0) return html`<span class="note">none</span>`
  return addresses.map((address) => html`<code>${address}</code> `)
}

function endpointCell(id: string, { endpoints, endpointCount, readyCount }: PortEntry): Html {
  if (endpointCount === 0) return html`<span class="bad">none</span>`
  const notShown = endpointCount - endpoints.length
  const state = readyCount === endpointCount ? 'good' : readyCount === 0 ? 'bad' : 'warning'
  return html`<details id="${id}">
    <summary id="of ${id}"><span class="${state}">${readyCount} of ${endpointCount} ready</span></summary>
    <ul>
      ${endpoints.map(endpointItem)}
    </ul>
    ${notShown > 0 ? html`<p class="note">And ${notShown} more.</p>` : ''}
  </details>`
}

function endpointItem({ address, state, node }: EndpointEntry): Html {
  return html`<li>
    <code>${address}</code>
    <span class="${state === 'ready' ? 'good' : 'bad'}">${state}</span
    >${node === '' ? '' : html` <span class="note">${node}</span>`}
  </li>`
}

function pageLinks(page: number, pageCount: number, search: string): Content {
  if (pageCount === 1) return ''
  const link = (target: number, words: string): Html =>
    target < 1 || target > pageCount || target === page
      ? html`<span class="note">${words}</span>`
      : html`<a
          id="${words}"
          href="ui?${new URLSearchParams({ q: search, page: String(target) }).toString()}#services"
          >${words}</a
        >`
  return html`<nav aria-label="Pages of Services">
    ${link(1, 'First')} ${link(page - 1, 'Previous')}
    <span>Page ${page} of ${pageCount}</span> ${link(page + 1, 'Next')} ${link(pageCount, 'Last')}
  </nav>`
}

function passSection(passes: readonly PassSnapshot[]): Html {
  if (passes.length === 0)
    return html`<h2 id="passes-title">Passes</h2>
      <p>No pass has ended.</p>`
  return html`<h2 id="passes-title">Passes</h2>
    <div class="scroll" id="pass-rows" tabindex="0" role="region" aria-label="Table of passes">
      <table>
        <thead>
          <tr>
            <th scope="col">Start</th>
            <th scope="col">Family</th>
            <th scope="col">Reason</th>
            <th scope="col" class="number">Took</th>
            <th scope="col">Stages</th>
            <th scope="col">Operations</th>
            <th scope="col">Result</th>
          </tr>
        </thead>
        <tbody>
          ${passes.toReversed().map(passRow)}
        </tbody>
      </table>
    </div>`
}

function passRow({
  start,
  family,
  reason,
  durationMs,
  stages,
  objects,
  changed,
  operations,
  isComplete,
  failures,
}: PassSnapshot): Html {
  const counts = Object.entries(operations).flatMap(([kind, byName]) =>
    Object.entries(byName).map(
      ([name, { applied, refused, unanswered }]) =>
        html`<li>
          ${kind} ${name}:
          ${applied}${refused > 0 ? html` <span class="bad">${refused} refused</span>` : ''}${unanswered > 0 ? html` <span class="bad">${unanswered} unanswered</span>` : ''}
        </li>`,
    ),
  )
  const result = isComplete
    ? html`<span class="good">complete</span>`
    : html`<span class="bad">incomplete</span>`
  const details =
    failures.length === 0
      ? ''
      : html`<ul>
          ${failures.map((failure) => html`<li>${failure}</li>`)}
        </ul>`
  return html`<tr>
    <td data-label="Start">${time(start)}</td>
    <td data-label="Family">${family}</td>
    <td data-label="Reason">${reason}</td>
    <td data-label="Took" class="number">${milliseconds(durationMs)}</td>
    <td data-label="Stages" class="stages">${stageList(stages)}</td>
    <td data-label="Operations">
      ${namesText('For', objects)} ${namesText('Changed', changed)}
      ${
        counts.length === 0
          ? 'none'
          : html`<ul>
              ${counts}
            </ul>`
      }
    </td>
    <td data-label="Result">${result}${details}</td>
  </tr>`
}

/** The time of each stage. The first one comes before the pass. */
function stageList({ waitingMs, compileMs, planMs, kernelMs }: PassSnapshot['stages']): Html {
  const shown = { waited: waitingMs, compile: compileMs, plan: planMs, kernel: kernelMs }
  return html`<ul>
    ${Object.entries(shown).map(([name, ms]) =>
      ms === undefined ? '' : html`<li><span>${name}</span> <span>${milliseconds(ms)}</span></li> `,
    )}
  </ul>`
}

/** The first objects that a pass is for, or the first service ports that it changed. */
function namesText(title: string, { count, first }: PassSnapshot['changed']): Html | '' {
  if (count === 0) return ''
  const rest = count - first.length
  return html`<p>${title}: ${first.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}</p>`
}

/** `text`: RFC 3339. */
function time(text: string): Html {
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')} UTC</time>`
}

function duration(seconds: number): string {
  const [days, hours, minutes] = [
    Math.floor(seconds / 86_400),
    Math.floor(seconds / 3600) % 24,
    Math.floor(seconds / 60) % 60,
  ]
  if (days > 0) return `${days} d ${hours} h`
  if (hours > 0) return `${hours} h ${minutes} min`
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}

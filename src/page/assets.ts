// The files of the status page. They are text in the bundle, as the agent reads no file while it runs.

export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M1 4h14v2H1zM2 6h2v7H2zM12 6h2v7h-2zM7 6h2v7H7z" fill="#2463b8"/></svg>
`

export const style = `:root {
  --text: #1b1f24; --quiet: #57606a; --ground: #f6f7f9; --card: #fff; --line: #d5dae1;
  --link: #1f5fb0; --good: #17692f; --bad: #a32323; --bad-ground: #fdecec; --bar: #2f74c8; --warn: #a04d0b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e4e8ee; --quiet: #a3adba; --ground: #12161b; --card: #1b2128; --line: #343d49;
    --link: #82b4f5; --good: #6ecb87; --bad: #ff9a92; --bad-ground: #3a1f20; --bar: #5c9bea; --warn: #eba05a;
  }
}
* { box-sizing: border-box; }
html { color: var(--text); background: var(--ground); font: 16px/1.45 system-ui, sans-serif; }
body { max-width: 76rem; margin: 0 auto; padding: 1rem; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1rem; background: var(--ground); }
header .note { margin-left: auto; }
header.stale { position: sticky; top: 0; z-index: 1; padding: .25rem 0; border-bottom: 2px solid var(--bad); }
#live:empty { display: none; }
#live { margin-left: 0; color: var(--good); }
.stale #live { color: var(--bad); font-weight: 600; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .6rem; }
h3 { font-size: 1rem; margin: 0; }
.node { font-weight: 400; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 1rem 0; }
section:focus { outline: none; }
a { color: var(--link); }
a:focus-visible, button:focus-visible, input:focus-visible, summary:focus-visible, .scroll:focus-visible {
  outline: 3px solid var(--link); outline-offset: 2px;
}
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; background: var(--card); padding: .5rem; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.good { color: var(--good); }
.bad { color: var(--bad); }
.warning { color: var(--warn); }
.note { color: var(--quiet); font-size: .875rem; margin: .25rem 0; }
#problems-title { margin: 0; }
.problems { list-style: none; margin: .6rem 0 0; padding: 0; }
.problems li { background: var(--bad-ground); border-left: 4px solid var(--bad); padding: .5rem .75rem; margin: .4rem 0; overflow-wrap: anywhere; }
.problems .warn { border-left-color: var(--warn); }
.problems .note { margin: .15rem 0 0; }
.tag { font-weight: 600; text-transform: uppercase; font-size: .75rem; letter-spacing: .04em; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 0 0 1rem; }
dt { color: var(--quiet); font-size: .875rem; }
dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9375rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem .4rem 0; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--quiet); font-weight: 600; font-size: .875rem; white-space: nowrap; }
tbody th { font-weight: 600; overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; padding-right: 1.25rem; white-space: nowrap; }
time, code { white-space: nowrap; }
td p { margin: 0 0 .35rem; overflow-wrap: anywhere; }
.families { width: auto; }
.families th, .families td { padding-right: 2rem; }
.stages li { display: flex; justify-content: space-between; gap: .75rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font: .875em ui-monospace, monospace; }
td ul { margin: 0; padding: 0; list-style: none; }
summary { cursor: pointer; white-space: nowrap; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1.5rem; }
figure { margin: 0; min-width: 0; }
figcaption, .axis { display: flex; justify-content: space-between; align-items: baseline; }
.top, .axis { color: var(--quiet); font-size: .875rem; margin: 0; }
svg { display: block; width: calc(100% - 3.5rem); height: 7rem; margin: .75rem 0 .4rem 3.5rem; overflow: visible; }
svg line { stroke: var(--line); }
svg text { fill: var(--quiet); font-size: .75rem; }
.unknown { fill: var(--ground); }
.latency .bar { fill: var(--bar); }
.drift .bar { fill: var(--warn); }
.axis { padding-left: 3.5rem; }
form { margin-bottom: .6rem; }
label { display: block; font-size: .875rem; color: var(--quiet); margin-bottom: .25rem; }
.field { display: flex; gap: .5rem; max-width: 34rem; }
input, button { font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--quiet); border-radius: .35rem; padding: .4rem .7rem; }
input { flex: 1; min-width: 0; }
nav { display: flex; flex-wrap: wrap; gap: .5rem 1rem; margin-top: .75rem; }
@media (max-width: 40rem) {
  body { padding: .5rem; }
  section { padding: .75rem; }
  thead { display: none; }
  tbody, table, .families { display: block; width: 100%; }
  tr { display: block; border-top: 1px solid var(--line); padding: .4rem 0; }
  tbody tr:first-child { border-top: 0; }
  tbody th, td, .families td { display: block; border: 0; padding: .1rem 0; text-align: left; }
  td[data-label] { position: relative; padding-left: 7.5rem; min-height: 1.6rem; }
  td[data-label]::before { content: attr(data-label); position: absolute; left: 0; color: var(--quiet); }
  td.number { text-align: left; }
  .stages ul { max-width: 9rem; }
  td code, td time { white-space: normal; overflow-wrap: anywhere; }
}
@media print {
  html { font-size: 11px; background: none; }
  body { max-width: none; padding: 0; }
  section { break-inside: auto; }
  tr, figure { break-inside: avoid; }
  form, nav, .skip, #live { display: none; }
  .scroll { overflow: visible; }
}
`

export const script = `'use strict'
// Replaces the live parts of the page after each change. The page works without this script.
const [retryMs, silenceMs] = [3000, 15_000]
const header = document.querySelector('header')
const state = document.getElementById('live')
const search = document.getElementById('q')
let events
let timer
let isBusy = false
let isStale = false
let isHeld = false

// A hidden tab has no connection: a browser has six per host, and the agent works for readers only.
function connect() {
  clearTimeout(timer)
  events?.close()
  if (document.hidden) return
  events = new EventSource('ui/events')
  const hear = () => {
    clearTimeout(timer)
    timer = setTimeout(lose, silenceMs)
  }
  hear()
  events.addEventListener('alive', hear)
  for (const name of ['open', 'change'])
    events.addEventListener(name, () => {
      hear()
      refresh()
    })
  events.addEventListener('error', lose)
}

function lose() {
  events.close()
  show('Not up to date: no connection to the agent', true)
  clearTimeout(timer)
  timer = setTimeout(connect, retryMs)
}

function show(text, isBad = false) {
  header.classList.toggle('stale', isBad)
  if (state.textContent !== text) state.textContent = text
}

async function refresh() {
  isStale = true
  if (isBusy) return
  isBusy = true
  try {
    while (isStale) {
      isStale = false
      const reply = await fetch(location.href, { signal: AbortSignal.timeout(silenceMs) })
      if (!reply.ok) throw new Error(reply.statusText)
      replaceParts(new DOMParser().parseFromString(await reply.text(), 'text/html'))
    }
    if (events.readyState === EventSource.OPEN) show(isHeld ? 'Waits for the end of the text selection' : 'Live')
  } catch {
    if (!document.hidden) lose()
  } finally {
    isBusy = false
  }
}

function replaceParts(next) {
  const selection = getSelection()
  const focused = document.activeElement?.id
  isHeld = false
  for (const part of document.querySelectorAll('[data-live]')) {
    const other = next.getElementById(part.id)
    if (other === null) continue
    const open = new Set([...part.querySelectorAll('details[open]')].map((details) => details.id))
    for (const details of other.querySelectorAll('details')) details.open = open.has(details.id)
    if (part.innerHTML === other.innerHTML) continue
    if (selection.type === 'Range' && selection.containsNode(part, true)) isHeld = true
    else replaceOne(part, other)
  }
  if (focused && document.activeElement?.id !== focused)
    document.getElementById(focused)?.focus({ preventScroll: true })
}

function replaceOne(part, other) {
  const regions = [...part.querySelectorAll('.scroll')].map(({ id, scrollLeft }) => ({ id, scrollLeft }))
  part.replaceChildren(...other.childNodes)
  for (const { id, scrollLeft } of regions) document.getElementById(id)?.scrollTo(scrollLeft, 0)
}

let typing
search.addEventListener('input', () => {
  clearTimeout(typing)
  typing = setTimeout(() => {
    const target = new URL(location.href)
    target.search = new URLSearchParams({ q: search.value }).toString()
    target.hash = ''
    history.replaceState(null, '', target)
    refresh()
  }, 250)
})

document.addEventListener('selectionchange', () => {
  if (isHeld && getSelection().type !== 'Range') refresh()
})
document.addEventListener('visibilitychange', connect)
connect()
`

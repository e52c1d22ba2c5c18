// In: the configuration, the kernel, the API server, /proc. Out: findings, each with its cause and its remedy.
// Never: a write; a proxy mode. The agent opens the modes, in a network namespace of its own, and gives the result.
// Owner of: the table of checks.
// Read next: check.ts (a row), diagnose.ts (the table), mode-checks.ts, docs/doctor.md.
export type { AgentStatus, ApiAnswers, Examined, Finding, ModeProbe } from './check.js'
export { diagnose, changesBetween, printChanges, printFindings } from './diagnose.js'

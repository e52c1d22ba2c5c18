#!/usr/bin/env node
await import('../dist/agent.js')

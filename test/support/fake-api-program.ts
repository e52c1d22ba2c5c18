// Program: the fake API server, for a network namespace: node fake-api-program.js PORT [OPTIONS]. OPTIONS is a JSON file with the options
// of FakeApiServer below.
// Reads a JSON array per line: ["put", KIND, OBJECT], ["remove", KIND, "NAMESPACE/NAME"], ["compact"], ["listen"], ["authorize", HEADER],
// ["drop"] (all connections). Prints each array when it is done, and ["event", EVENT] for each Event that it receives or that changes.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { FakeApiServer } from './fake-api-server.js'

const kind = Type.Union([
  Type.Literal('Service'),
  Type.Literal('EndpointSlice'),
  Type.Literal('Node'),
  Type.Literal('ServiceCIDR'),
])
const Command = Type.Union([
  Type.Tuple([Type.Literal('put'), kind, Type.Record(Type.String(), Type.Unknown())]),
  Type.Tuple([Type.Literal('remove'), kind, Type.String()]),
  Type.Tuple([Type.Literal('compact')]),
  Type.Tuple([Type.Literal('listen')]),
  Type.Tuple([Type.Literal('authorize'), Type.String()]),
  Type.Tuple([Type.Literal('drop')]),
])

const Options = Type.Object({
  address: Type.Optional(Type.String()),
  certificate: Type.Optional(Type.Object({ cert: Type.String(), key: Type.String() })),
  authorization: Type.Optional(Type.String()),
  clientAuthorities: Type.Optional(Type.Array(Type.String())),
})

const [, , port, optionsFile] = process.argv
const server = new FakeApiServer(
  optionsFile === undefined ? {} : Value.Parse(Options, JSON.parse(readFileSync(optionsFile, 'utf8'))),
)
server.events.onStored = (event) => void process.stdout.write(`${JSON.stringify(['event', event])}\n`)
for await (const line of createInterface({ input: process.stdin })) {
  const command = Value.Parse(Command, JSON.parse(line))
  if (command[0] === 'put') server.store.put(command[1], command[2])
  else if (command[0] === 'remove') server.store.remove(command[1], command[2])
  else if (command[0] === 'compact') server.store.compact()
  else if (command[0] === 'authorize') server.options = { ...server.options, authorization: command[1] }
  else if (command[0] === 'drop') server.dropConnections()
  else await server.listen(Number(port))
  process.stdout.write(`${line}\n`)
}
await server.close()

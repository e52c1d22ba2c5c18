// Kinds of fields for the message tables. dropsZero follows the JSON tag of the Go field: `omitempty` on a field that is no pointer.
import type { Field, Message } from './protobuf.js'

export function text(name: string): Field {
  return { name, read: 'text', dropsZero: true, isCommon: false }
}

/** Of a pointer, or of a field that JSON always has. */
export function anyText(name: string): Field {
  return { name, read: 'text', dropsZero: false, isCommon: false }
}

/** As text(), of a field that says the same in many objects. */
export function commonText(name: string): Field {
  return { name, read: 'text', dropsZero: true, isCommon: true }
}

/** As anyText(), of a field that says the same in many objects. */
export function anyCommonText(name: string): Field {
  return { name, read: 'text', dropsZero: false, isCommon: true }
}

export function whole(name: string): Field {
  return { name, read: 'whole', dropsZero: true }
}

export function anyWhole(name: string): Field {
  return { name, read: 'whole', dropsZero: false }
}

export function texts(name: string): Field {
  return { name, read: 'texts' }
}

export function one(name: string, inner: Message): Field {
  return { name, read: 'message', message: inner }
}

export function many(name: string, inner: Message): Field {
  return { name, read: 'messages', message: inner }
}

// Kinds of fields for the message tables. dropsZero follows the JSON tag of the Go field: `omitempty` on a field that is no pointer.
import type { Field, Message } from './protobuf.js'

export function text(name: string): Field {
  return { name, read: 'text', dropsZero: true, isCommon: false }
}

/** Text of a Go pointer, or of a field that JSON always contains. */
export function anyText(name: string): Field {
  return { name, read: 'text', dropsZero: false, isCommon: false }
}

/** As text(), for a field with the same value in many objects. */
export function commonText(name: string): Field {
  return { name, read: 'text', dropsZero: true, isCommon: true }
}

/** As anyText(), for a field with the same value in many objects. */
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

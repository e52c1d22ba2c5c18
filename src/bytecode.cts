// The file of bytecode beside the bundle: written by the build, read by the launcher.
import zlib = require('node:zlib')

const checksumLength = 4

/**
 * V8 looks at no more of its bytecode than a header: damaged bytes, and those of a Node that was built otherwise, would end the
 * process. So the checksum is over this Node as well, and over the source, of which V8 knows the length.
 */
function checksumOf(source: Buffer, bytecode: Buffer): number {
  const node = JSON.stringify([process.versions, process.arch, process.config])
  return zlib.crc32(bytecode, zlib.crc32(source, zlib.crc32(node)))
}

/** The file's content: the checksum, then what V8 made of the source. */
function seal(source: Buffer, bytecode: Buffer): Buffer {
  const head = Buffer.alloc(checksumLength)
  head.writeUInt32LE(checksumOf(source, bytecode))
  return Buffer.concat([head, bytecode])
}

/** The bytecode, when it is whole, and was made of this source by this Node. */
function unseal(source: Buffer, sealed: Buffer): Buffer | undefined {
  if (sealed.length < checksumLength) return undefined
  const bytecode = sealed.subarray(checksumLength)
  return sealed.readUInt32LE() === checksumOf(source, bytecode) ? bytecode : undefined
}

export = { seal, unseal }

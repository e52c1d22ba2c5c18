// Finds the rules of a frontend in a few steps: a base chain, and a tree of bucket chains behind it.
import { isDeepStrictEqual } from 'node:util'
import type { XtRule } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Frontend } from '../../routing/index.js'
import type { DesiredChain, DispatchChain } from './desired.js'
import {
  digitAt,
  dispatchKey,
  type DispatchKey,
  firstDifference,
  isWholePart,
  partOf,
} from './dispatch-key.js'
import { bucketChain } from './names.js'

/** The differences since the last `take`. */
export interface DispatchChange {
  readonly set: readonly DesiredChain[]
  /** Bucket chains that were removed. */
  readonly removed: readonly string[]
}

/** A rule of a chain with `size` rules. */
export interface RulePlace {
  readonly chain: string
  readonly rule: number
  readonly size: number
}

/** A chain holds this many frontends itself before it splits. */
const flatLimit = 16
/** Children of this many frontends stay in the chain that splits: 4 digits x 4 frontends are its 16 rules again. */
const inlineLimit = 4

/** The content of a chain. Each element, the rules of a frontend or the rule to a bucket, is compared by identity. */
type Content = (readonly XtRule[])[]

interface Leaf {
  readonly key: DispatchKey
  readonly rules: readonly XtRule[]
  /** The route that set the rules. */
  readonly holder: ServicePortKey
}

/** Frontends whose keys are equal up to a place, and differ there. A branch has at least two children. */
interface Branch {
  /** The key of a present or former frontend below: only the digits before `place` count. */
  readonly key: DispatchKey
  readonly place: number
  readonly children: (Tree | undefined)[]
  /** Number of frontends below. */
  count: number
  /** The chain of the branch, or one below, may need a change. */
  isTouched: boolean
  /** Undefined: the branch has no chain now. */
  bucket: Bucket | undefined
}

/** The chain of a branch, and the one rule that leads to it. */
interface Bucket {
  readonly chain: string
  readonly jump: readonly XtRule[]
  readonly goto: readonly XtRule[]
  content: Content
}

type Tree = Leaf | Branch

/**
 * A dispatch chain and its frontends. Its chains depend only on the present frontends, not on the order of their arrival: a bucket
 * is a prefix of address, protocol and port, and the frontends in it differ in the next digit. So a change touches only the buckets
 * on its own path.
 */
export class DispatchTree {
  readonly #dispatch: DispatchChain
  #tail: readonly XtRule[]
  #addressed: Tree | undefined
  #ports: Tree | undefined
  #content: Content | undefined
  #set: DesiredChain[] = []
  readonly #removed = new Set<string>()

  /** `tail`: rules of the base chain behind all frontends. */
  constructor(dispatch: DispatchChain, tail: readonly XtRule[] = []) {
    this.#dispatch = dispatch
    this.#tail = tail
  }

  /** Number of frontends. */
  get size(): number {
    return countOf(this.#addressed) + countOf(this.#ports)
  }

  setTail(tail: readonly XtRule[]): void {
    if (!isDeepStrictEqual(tail, this.#tail)) this.#tail = tail
  }

  /** Every chain as the last `take` left it. Walks all. */
  *chains(): Iterable<DesiredChain> {
    if (this.#content !== undefined) yield { ...this.#dispatch, rules: flattened(this.#content) }
    for (const root of [this.#addressed, this.#ports]) yield* this.#chainsBelow(root)
  }

  /** The route that set the rules of the frontend last; undefined: there are none. */
  holderOf(frontend: Frontend): ServicePortKey | undefined {
    return this.#find(frontend)?.holder
  }

  /**
   * The last rule that the route has for the frontend, in its chain as the last `take` left it; undefined: no chain has the present rules,
   * or another route has the frontend.
   */
  placeOf(frontend: Frontend, route: ServicePortKey): RulePlace | undefined {
    const found = [{ chain: this.#dispatch.chain, content: this.#content ?? [] }]
    const leaf = this.#find(frontend, (bucket) => found.push(bucket))
    if (leaf?.holder !== route) return undefined
    const { rules } = leaf
    const of = found.findLast(({ content }) => content.includes(rules))
    return of && rules.length > 0 ? placeIn(of, rules) : undefined
  }

  /** `onBucket` gets the buckets that lead to the leaf. */
  #find(frontend: Frontend, onBucket?: (bucket: Bucket) => void): Leaf | undefined {
    const key = dispatchKey(frontend)
    let tree = frontend.kind === 'address' ? this.#addressed : this.#ports
    while (tree !== undefined && isBranch(tree)) {
      if (tree.bucket !== undefined) onBucket?.(tree.bucket)
      tree = tree.children[digitAt(key, tree.place)]
    }
    return tree === undefined || firstDifference(tree.key, key) < 4 * key.length ? undefined : tree
  }

  /** Replaces the rules of the frontend by those of this route. The rules match the frontend themselves. */
  set(frontend: Frontend, rules: readonly XtRule[], holder: ServicePortKey): void {
    const leaf: Leaf = { key: dispatchKey(frontend), rules, holder }
    if (frontend.kind === 'address') this.#addressed = this.#insert(this.#addressed, leaf)
    else this.#ports = this.#insert(this.#ports, leaf)
  }

  /** Removes the rules of the frontend. An absent frontend changes nothing. */
  remove(frontend: Frontend): void {
    const key = dispatchKey(frontend)
    if (frontend.kind === 'address') this.#addressed = this.#delete(this.#addressed, key)
    else this.#ports = this.#delete(this.#ports, key)
  }

  /** The chains that changed since the last call; the first call has the base chain, even when it is empty. */
  take(): DispatchChange {
    const content = [...this.#baseContent(), this.#tail]
    if (this.#content === undefined || !isSame(this.#content, content)) {
      this.#content = content
      this.#set.push({ ...this.#dispatch, rules: flattened(content) })
    }
    const change = { set: this.#set, removed: [...this.#removed] }
    this.#set = []
    this.#removed.clear()
    return change
  }

  *#chainsBelow(tree: Tree | undefined): Iterable<DesiredChain> {
    if (tree === undefined || !isBranch(tree)) return
    const { bucket, children } = tree
    if (bucket !== undefined)
      yield { table: this.#dispatch.table, chain: bucket.chain, rules: flattened(bucket.content) }
    for (const child of children) yield* this.#chainsBelow(child)
  }

  #insert(tree: Tree | undefined, leaf: Leaf): Tree {
    if (tree === undefined) return leaf
    const place = firstDifference(tree.key, leaf.key)
    if (!isBranch(tree)) {
      if (place < 4 * leaf.key.length) return join(tree, leaf, place)
      if (!isDeepStrictEqual(tree.rules, leaf.rules)) return leaf
      return tree.holder === leaf.holder ? tree : { ...leaf, rules: tree.rules }
    }
    if (place < tree.place) return join(tree, leaf, place)
    const digit = digitAt(leaf.key, tree.place)
    const child = tree.children[digit]
    const before = countOf(child)
    replaceChild(tree, digit, this.#insert(child, leaf), before)
    return tree
  }

  #delete(tree: Tree | undefined, key: DispatchKey): Tree | undefined {
    if (tree === undefined) return undefined
    const place = firstDifference(tree.key, key)
    if (!isBranch(tree)) return place < 4 * key.length ? tree : undefined
    if (place < tree.place) return tree
    const digit = digitAt(key, tree.place)
    const child = tree.children[digit]
    const before = countOf(child)
    replaceChild(tree, digit, this.#delete(child, key), before)
    const [first, ...others] = tree.children.filter((remaining) => remaining !== undefined)
    if (first === undefined || others.length > 0) return tree
    this.#dropBucket(tree)
    return first
  }

  #baseContent(): Content {
    const content: Content = []
    const isFlat = this.size <= flatLimit
    // Addresses come before node ports, whose rules match any address.
    for (const root of [this.#addressed, this.#ports]) {
      if (isFlat) this.#collect(root, content)
      else this.#split(topsOf(root), 'jump', content)
    }
    return content
  }

  /** The rules that lead to big trees come first: a packet that matches one of them passes no rule of the small trees. */
  #split(trees: readonly (Tree | undefined)[], way: 'jump' | 'goto', content: Content): void {
    for (const tree of trees) if (isBig(tree)) content.push(this.#publish(tree)[way])
    for (const tree of trees) if (!isBig(tree)) this.#collect(tree, content)
  }

  /** Brings the bucket chain of the branch up to date, and those below it. */
  #publish(branch: Branch): Bucket {
    if (!branch.isTouched && branch.bucket !== undefined) return branch.bucket
    branch.isTouched = false
    const content: Content = []
    // Buckets do not return to each other: a packet that matches no rule goes back to the base chain at once.
    if (branch.count > flatLimit) this.#split(branch.children, 'goto', content)
    else for (const child of branch.children) this.#collect(child, content)
    if (branch.bucket !== undefined && isSame(branch.bucket.content, content)) return branch.bucket
    const bucket = (branch.bucket ??= bucketOf(this.#dispatch, branch))
    bucket.content = content
    this.#removed.delete(bucket.chain)
    this.#set.push({ table: this.#dispatch.table, chain: bucket.chain, rules: flattened(content) })
    return bucket
  }

  /** The rules of all frontends below, for which no bucket chains are needed. */
  #collect(tree: Tree | undefined, content: Content): void {
    if (tree === undefined) return
    if (!isBranch(tree)) {
      content.push(tree.rules)
      return
    }
    this.#dropBucket(tree)
    for (const child of tree.children) this.#collect(child, content)
  }

  #dropBucket(branch: Branch): void {
    if (branch.bucket === undefined) return
    this.#removed.add(branch.bucket.chain)
    branch.bucket = undefined
  }
}

function join(tree: Tree, leaf: Leaf, place: number): Branch {
  const children: (Tree | undefined)[] = [undefined, undefined, undefined, undefined]
  children[digitAt(tree.key, place)] = tree
  children[digitAt(leaf.key, place)] = leaf
  return { key: leaf.key, place, children, count: countOf(tree) + 1, isTouched: true, bucket: undefined }
}

function replaceChild(branch: Branch, digit: number, child: Tree | undefined, before: number): void {
  branch.children[digit] = child
  branch.count += countOf(child) - before
  branch.isTouched = true
}

function bucketOf(dispatch: DispatchChain, branch: Branch): Bucket {
  const { match, text } = partOf(branch.key, branch.place)
  const chain = bucketChain(dispatch, text)
  return {
    chain,
    jump: [{ ...match, target: { kind: 'jump', chain } }],
    goto: [{ ...match, target: { kind: 'goto', chain } }],
    content: [],
  }
}

/** A bucket of everything would be one more step for every packet, so its children stand in the base chain. */
function topsOf(root: Tree | undefined): readonly (Tree | undefined)[] {
  return root !== undefined && isBranch(root) && isWholePart(root.key, root.place) ? root.children : [root]
}

function isBig(tree: Tree | undefined): tree is Branch {
  return tree !== undefined && isBranch(tree) && tree.count > inlineLimit
}

function isBranch(tree: Tree): tree is Branch {
  return 'children' in tree
}

function countOf(tree: Tree | undefined): number {
  if (tree === undefined) return 0
  return isBranch(tree) ? tree.count : 1
}

/** The place of the last of these rules. */
function placeIn(
  { chain, content }: { readonly chain: string; readonly content: Content },
  rules: readonly XtRule[],
): RulePlace {
  let size = 0
  let rule = 0
  for (const each of content) {
    size += each.length
    if (each === rules) rule = size - 1
  }
  return { chain, rule, size }
}

function isSame(a: Content, b: Content): boolean {
  return a.length === b.length && a.every((rules, i) => rules === b[i])
}

/** Does the work of flat(), which costs more than all the rest of take(). */
function flattened(content: Content): readonly XtRule[] {
  const flat: XtRule[] = []
  for (const rules of content) for (const rule of rules) flat.push(rule)
  return flat
}

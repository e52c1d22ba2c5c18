// Finds the rules of a frontend in a few steps: a base chain, and a tree of bucket chains behind it.
import { isDeepStrictEqual } from 'node:util'
import type { XtRule } from '../../kernel/index.js'
import type { DesiredChain, DispatchChain, Frontend } from './desired.js'
import {
  digitAt,
  dispatchKey,
  type DispatchKey,
  firstDifference,
  isWholePart,
  partOf,
} from './dispatch-key.js'
import { bucketChain } from './names.js'

/** What became different since the last look. */
export interface DispatchChange {
  readonly set: readonly DesiredChain[]
  /** Bucket chains that are no more. */
  readonly removed: readonly string[]
}

/** A chain holds this many frontends itself before it splits. */
const flatLimit = 16
/** Children of this many frontends stay in the chain that splits: 4 digits x 4 frontends are its 16 rules again. */
const inlineLimit = 4

/** What a chain is made of: the rules of a frontend, or the way to a bucket. Compared by identity. */
type Content = readonly (readonly XtRule[])[]

interface Leaf {
  readonly key: DispatchKey
  readonly rules: readonly XtRule[]
}

/** Keys that are equal up to a place, and differ there: it has two children at least. */
interface Branch {
  /** Of some frontend that was below once: only the digits before `place` count. */
  readonly key: DispatchKey
  readonly place: number
  readonly children: (Tree | undefined)[]
  /** Frontends below. */
  count: number
  /** A chain of it, or below it, may have to change. */
  isTouched: boolean
  /** Undefined: it has no bucket chain now. */
  content: Content | undefined
  readonly chain: string
  readonly ways: Readonly<Record<'jump' | 'goto', readonly XtRule[]>>
}

type Tree = Leaf | Branch

/**
 * A dispatch chain and the frontends that it knows. Its chains are a function of the present frontends alone, whatever
 * the order in which they came: a bucket is a prefix of address, protocol and port in which frontends differ for the
 * first time. So a change touches the buckets on its own path and no others.
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

  /** Frontends that have rules. */
  get size(): number {
    return countOf(this.#addressed) + countOf(this.#ports)
  }

  setTail(tail: readonly XtRule[]): void {
    if (!isDeepStrictEqual(tail, this.#tail)) this.#tail = tail
  }

  /** Puts the rules in the place of those that the frontend had. They match the frontend themselves. */
  set(frontend: Frontend, rules: readonly XtRule[]): void {
    const leaf: Leaf = { key: dispatchKey(frontend), rules }
    if (frontend.address === undefined) this.#ports = this.#insert(this.#ports, leaf)
    else this.#addressed = this.#insert(this.#addressed, leaf)
  }

  /** Absent: nothing to do. */
  remove(frontend: Frontend): void {
    const key = dispatchKey(frontend)
    if (frontend.address === undefined) this.#ports = this.#delete(this.#ports, key)
    else this.#addressed = this.#delete(this.#addressed, key)
  }

  /** The chains that changed since the last call; the first call has the base chain, even when it is empty. */
  take(): DispatchChange {
    const content = [...this.#baseContent(), this.#tail]
    if (!isSame(this.#content, content)) {
      this.#content = content
      this.#set.push({ ...this.#dispatch, rules: content.flat() })
    }
    const change = { set: this.#set, removed: [...this.#removed] }
    this.#set = []
    this.#removed.clear()
    return change
  }

  #insert(tree: Tree | undefined, leaf: Leaf): Tree {
    if (tree === undefined) return leaf
    const place = firstDifference(tree.key, leaf.key)
    if (!isBranch(tree)) {
      if (place < 4 * leaf.key.length) return this.#join(tree, leaf, place)
      return isDeepStrictEqual(tree.rules, leaf.rules) ? tree : leaf
    }
    if (place < tree.place) return this.#join(tree, leaf, place)
    return this.#replaceChild(tree, digitAt(leaf.key, tree.place), (child) => this.#insert(child, leaf))
  }

  #delete(tree: Tree | undefined, key: DispatchKey): Tree | undefined {
    if (tree === undefined) return undefined
    const place = firstDifference(tree.key, key)
    if (!isBranch(tree)) return place < 4 * key.length ? tree : undefined
    if (place < tree.place) return tree
    this.#replaceChild(tree, digitAt(key, tree.place), (child) => this.#delete(child, key))
    const [first, ...others] = tree.children.filter((child) => child !== undefined)
    if (first === undefined || others.length > 0) return tree
    this.#dropChain(tree)
    return first
  }

  #replaceChild(
    branch: Branch,
    digit: number,
    replace: (child: Tree | undefined) => Tree | undefined,
  ): Branch {
    const child = branch.children[digit]
    const before = countOf(child)
    const after = replace(child)
    branch.children[digit] = after
    branch.count += countOf(after) - before
    branch.isTouched = true
    return branch
  }

  #join(tree: Tree, leaf: Leaf, place: number): Branch {
    const { match, text } = partOf(leaf.key, place)
    const chain = bucketChain(this.#dispatch, text)
    const children: (Tree | undefined)[] = [undefined, undefined, undefined, undefined]
    children[digitAt(tree.key, place)] = tree
    children[digitAt(leaf.key, place)] = leaf
    const ways = {
      jump: [{ ...match, target: { kind: 'jump', chain } }],
      goto: [{ ...match, target: { kind: 'goto', chain } }],
    } as const
    const count = countOf(tree) + 1
    return { key: leaf.key, place, children, count, isTouched: true, content: undefined, chain, ways }
  }

  #baseContent(): Content {
    const roots = [this.#addressed, this.#ports].filter((root) => root !== undefined)
    if (this.size <= flatLimit) return roots.flatMap((root) => this.#leaves(root))
    // A bucket of everything would be one more step for every packet: its children stand in the base chain.
    const tops = roots.flatMap((root) =>
      isBranch(root) && isWholePart(root.key, root.place) ? root.children : [root],
    )
    return this.#split(tops, 'jump')
  }

  /** Ways to the big trees first: who goes on to another chain passes none of the small ones. */
  #split(trees: readonly (Tree | undefined)[], way: 'jump' | 'goto'): Content {
    const ways: (readonly XtRule[])[] = []
    const rules: (readonly XtRule[])[] = []
    for (const tree of trees) {
      if (tree === undefined) continue
      if (isBranch(tree) && tree.count > inlineLimit) {
        this.#publish(tree)
        ways.push(tree.ways[way])
      } else {
        rules.push(...this.#leaves(tree))
      }
    }
    return [...ways, ...rules]
  }

  /** Brings the bucket chain of the branch up to date, and those below it. */
  #publish(branch: Branch): void {
    if (!branch.isTouched && branch.content !== undefined) return
    branch.isTouched = false
    // Nothing returns from one bucket to another: a packet that no rule wants goes back to the base chain at once.
    const content = branch.count <= flatLimit ? this.#leaves(branch) : this.#split(branch.children, 'goto')
    if (isSame(branch.content, content)) return
    branch.content = content
    this.#removed.delete(branch.chain)
    this.#set.push({ table: this.#dispatch.table, chain: branch.chain, rules: content.flat() })
  }

  /** The rules of all frontends below, which has no bucket chains then. */
  #leaves(tree: Tree): Content {
    if (!isBranch(tree)) return [tree.rules]
    this.#dropChain(tree)
    return tree.children.flatMap((child) => (child === undefined ? [] : this.#leaves(child)))
  }

  #dropChain(branch: Branch): void {
    if (branch.content === undefined) return
    branch.content = undefined
    this.#removed.add(branch.chain)
  }
}

function isBranch(tree: Tree): tree is Branch {
  return 'children' in tree
}

function countOf(tree: Tree | undefined): number {
  if (tree === undefined) return 0
  return isBranch(tree) ? tree.count : 1
}

function isSame(a: Content | undefined, b: Content): boolean {
  return a !== undefined && a.length === b.length && a.every((rules, i) => rules === b[i])
}

// Times without transactions, which other programs need.

/** Keeps a time without transactions between passes. */
export interface PassPause {
  /** Resolves when a pass may begin; `end` must follow. */
  begin(): Promise<void>
  /** `isUnfinished`: the next pass continues the work of this one. */
  end(pass: { readonly hasWritten: boolean; readonly isUnfinished: boolean }): void
  /** No pass waits. */
  hurry(): void
}

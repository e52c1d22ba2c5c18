/** Kernel settings under /proc/sys, named by their path: `net/ipv4/vs/conntrack`. */
export interface Sysctl {
  /** Trimmed text; undefined: the kernel lacks the setting. Throws KernelError if it cannot be read. */
  read(path: string): Promise<string | undefined>
  /** Throws KernelError (ENOENT: no such setting; EACCES/EPERM/EROFS: not allowed; EINVAL: bad value). */
  write(path: string, value: string): Promise<void>
}

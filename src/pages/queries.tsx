import {
  focusManager,
  QueryClient,
  QueryClientProvider,
  type QueryState,
  type UseQueryResult,
  useInfiniteQuery,
  usePrefetchInfiniteQuery,
  useQuery,
  useQueryClient,
} from '@tanstack/preact-query'
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ApiError, type Arguments, call, type Loose } from './api.ts'
import { isExpired } from './expiry.ts'
import { useQuery as useAddress } from './router.ts'
import type { Answer, Query, Routes } from './routes.ts'

/** How pages load and change data. A query's key is its request, so components share what they load. */

/** Polls slow down while nobody uses the page, and stop after an hour, because they keep the session alive. */
const SLOWEST_MS = 30_000
const SLOWER_EVERY_MS = 60_000
const IDLE_MS = 60 * 60_000

let usedAt = 0
const idleMs = () => Date.now() - usedAt

function use(): void {
  if (isExpired()) return
  const wasIdle = idleMs() > SLOWER_EVERY_MS
  usedAt = Date.now()
  focusManager.setFocused(!document.hidden)
  if (wasIdle) focusManager.onFocus()
}
use()
// Of the window: the page itself focuses elements.
addEventListener('focus', use)
for (const event of ['pointerdown', 'keydown', 'visibilitychange'])
  addEventListener(event, use, { capture: true, passive: true })

/** Options of a query that loads again `everyMs` after each response, or at the next use of an idle page. */
export const polled = (everyMs: number) => ({
  refetchOnWindowFocus: true,
  refetchInterval({ state }: { state: QueryState<unknown, Error> }) {
    const slower = 1 + Math.floor(idleMs() / SLOWER_EVERY_MS)
    const failures = state.status === 'error' ? Math.min(state.errorUpdateCount, 4) : 0
    return idleMs() < IDLE_MS && Math.min(SLOWEST_MS, everyMs * slower * 2 ** failures)
  },
})

const openClient = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        // Requests without a network fail and say so, instead of waiting for it.
        networkMode: 'always',
        retry: false,
        refetchOnReconnect: () => idleMs() < IDLE_MS,
        refetchOnWindowFocus: ({ state }) => state.status === 'error',
      },
    },
  })

/** Components inside share a cache. Each session has its own, so it never shows the data of a different one. */
export function Sharing({ children }: { children: ComponentChildren }) {
  const [client] = useState(openClient)
  return <QueryClientProvider client={client}>{children}</QueryClientProvider>
}

/** The previous response stays while a new one loads. */
export function useRead<Name extends keyof Routes>(route: Name, ...[options]: Arguments<Name>) {
  return useQuery(reading(route, ...([options] as Arguments<Name>)))
}

export const reading = <Name extends keyof Routes>(route: Name, ...[options]: Arguments<Name>) => ({
  queryKey: [route, options] as const,
  queryFn: ({ signal }: { signal: AbortSignal }) =>
    call(route, ...([{ ...options, signal }] as unknown as Arguments<Name>)),
})

/** Reloads what a route returned, after a change. Responses to requests from before it are ignored. */
export function useReload() {
  const client = useQueryClient()
  return async (route: keyof Routes): Promise<void> => {
    await client.cancelQueries({ queryKey: [route] })
    await client.invalidateQueries({ queryKey: [route] })
  }
}

const MAX_PAGES = 50

/** The address keeps the number of pages as `shown`, for reloads and Back. A change of the filter sets it to ''. */
export function usePages<Name extends 'GET /auth/members' | 'GET /auth/audit'>(
  route: Name,
  query: Loose<Query<Name>>,
) {
  const client = useQueryClient()
  const [{ shown = '1' }, changeAddress] = useAddress()
  const options = {
    queryKey: [route, 'pages', query],
    queryFn: ({ pageParam: cursor, signal }: { pageParam: string | undefined; signal: AbortSignal }) =>
      call(route, ...([{ query: { ...query, cursor }, signal }] as unknown as Arguments<Name>)),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }: Answer<Name>) => nextCursor,
  }
  usePrefetchInfiniteQuery({ ...options, pages: Math.min(Number(shown) || 1, MAX_PAGES) })
  const list = useInfiniteQuery(options)
  const pages = list.data?.pages ?? []
  useEffect(() => {
    if (pages.length === 0 || String(pages.length) === shown) return
    changeAddress({ shown: pages.length > 1 ? String(pages.length) : '' })
  }, [pages.length, shown])

  function change(edit: (pages: Answer<Name>[]) => Answer<Name>[]): void {
    const { queryKey } = options
    const apply = () =>
      client.setQueryData<typeof list.data>(queryKey, (all) => all && { ...all, pages: edit(all.pages) })
    apply()
    // A response on its way would bring the previous rows back.
    if (client.isFetching({ queryKey }) > 0) list.refetch({ cancelRefetch: false }).then(apply)
  }
  /** The rows before the next page. The last page removes the button, so its first row takes the focus. */
  const rowsBefore = useRef(Number.NaN)
  const rows = () => document.querySelectorAll<HTMLElement>('.list-row')
  useLayoutEffect(() => {
    const row = rows()[rowsBefore.current]
    if (!row || list.hasNextPage || document.activeElement !== document.body) return
    rowsBefore.current = Number.NaN
    row.tabIndex = -1
    row.focus()
  })
  const isOfMore = list.isFetchNextPageError
  return {
    first: isOfMore ? { ...list, error: null } : list,
    pages,
    change,
    moreButton: (label: string) => (
      <>
        {isOfMore && <Fault>{list.error.message}</Fault>}
        {list.hasNextPage && (
          <button
            type="button"
            onClick={() => {
              rowsBefore.current = rows().length
              list.fetchNextPage({ cancelRefetch: false })
            }}
            aria-disabled={list.isFetchingNextPage}
          >
            {list.isFetchingNextPage ? 'One moment…' : label}
          </button>
        )}
      </>
    ),
  }
}

export function Fault({ children }: { children: ComponentChildren }) {
  return (
    <p class="error box" role="alert">
      {children}
    </p>
  )
}

type Loaded = Pick<UseQueryResult, 'error' | 'isPending' | 'errorUpdateCount' | 'refetch'>

/** The loading state, or the error, with a button unless a retry cannot help. */
export function Waiting({ of: { error, isPending, errorUpdateCount, refetch } }: { of: Loaded }) {
  // The error stays during a retry, so that its button keeps the focus.
  const last = useRef<Error | null>(null)
  last.current = error ?? (isPending && errorUpdateCount > 0 ? last.current : null)
  const { current: fault } = last
  if (!fault) return isPending ? <Loading /> : null
  return (
    <Fault>
      {fault.message}{' '}
      {!isFinal(fault) && (
        <button type="button" class="small" onClick={() => refetch()}>
          Try again
        </button>
      )}
    </Fault>
  )
}

export function Loading() {
  return (
    <p class="loading" role="status">
      <span class="hidden">Loading…</span>
    </p>
  )
}

const isFinal = (error: Error) =>
  error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429

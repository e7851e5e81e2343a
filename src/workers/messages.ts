/** What the primary and its workers tell each other. All are the same version, on one machine. */

/** Metrics as `Registry.getMetricsAsJSON` gives them. */
export type Metrics = object[]

export type FromWorker = { type: 'serving'; url: string } | { type: 'metrics'; metrics: Metrics }

export type FromPrimary = { type: 'drain' } | { type: 'metrics' }

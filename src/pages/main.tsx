import { render } from 'preact'
import './translation.ts'
import { App } from './app.tsx'

const root = document.getElementById('app')
if (root) {
  render(<App />, root)
  root.className = 'begun'
}

// The frame: who is here, where they are, how old the data is.
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { login, logout, resume, session } from './api';
import { attention } from './attention';
import { Confirm } from './confirm';
import { Help, helpOpen } from './keys';
import { age, connected, sample, stale } from './live';
import { link, route, screens } from './route';
import type { Screen } from './route';
import { Audit } from './screens/audit';
import { Dead } from './screens/dead';
import { Live } from './screens/live';
import { Orders } from './screens/orders';
import { Pipeline } from './screens/pipeline';
import { scheme, turn } from './theme';
import { Badge, Fault, Notice } from './ui';
import { count } from './words';

const views: Record<Screen, ComponentType> = { live: Live, orders: Orders, dead: Dead, pipeline: Pipeline, audit: Audit };

export function App() {
  const [fault, setFault] = useState<Error | null>(null);
  const begin = () => { setFault(null); resume().catch(setFault); };
  useEffect(begin, []);
  if (session.value === null) return <Login />;
  if (!session.value) return <main>{fault ? <Fault error={fault} retry={begin} /> : <p role="status">Looking who you are …</p>}</main>;
  return <Frame />;
}

function Frame() {
  const { screen } = route.value;
  const View = views[screen];
  const name = screens.find(([s]) => s === screen)![1];
  useEffect(() => { document.title = `${name} · seckill`; }, [name]);
  return (
    <>
      <header class="top">
        <span class="brand">seckill</span>
        <nav aria-label="Screens">
          <ul>{screens.map(([s, label]) => (
            <li key={s}><a href={link(s)} aria-current={s === screen ? 'page' : undefined}>{label}<Pip screen={s} /></a></li>
          ))}</ul>
        </nav>
        <Who />
      </header>
      <main><View /></main>
      <Confirm /><Help /><Notice />
    </>
  );
}

// Pip counts what waits for somebody on a screen.
function Pip({ screen }: { screen: Screen }) {
  const n = attention.value.reduce((sum, a) => sum + (a.screen === screen && a.tone === 'bad' ? a.n : 0), 0);
  return n > 0 ? <span class="pip">{count(n)}<span class="visually-hidden"> to look at</span></span> : null;
}

function Who() {
  const { operator, read_only } = session.value!;
  return (
    <div class="who">
      <Age />
      {read_only && <Badge tone="info">Read only</Badge>}
      <span class="name quiet">{operator || 'operator'}</span>
      <button type="button" class="icon" onClick={turn} aria-label={scheme.value === 'dark' ? 'Light colours' : 'Dark colours'} title="Light or dark (t)">◐</button>
      <button type="button" class="icon" onClick={() => { helpOpen.value = true; }} aria-label="Keys" title="Keys (?)">?</button>
      <button type="button" class="small" onClick={() => void logout()}>Sign out</button>
    </div>
  );
}

// Age is how old what one sees is. Only a change of its kind is read out.
function Age() {
  const kind = !connected.value ? 'bad' : stale.value ? 'wait' : 'good';
  const words = !connected.value ? 'Reconnecting' : stale.value ? 'Late' : 'Live';
  return (
    <span class={`age ${kind}`}>
      <i /><span role="status">{words}</span>
      {sample.value && <span data-age>{(age.value ?? 0).toFixed(age.value! < 10 ? 1 : 0)} s old</span>}
    </span>
  );
}

function Login() {
  const [token, setToken] = useState('');
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => { document.title = 'Sign in · seckill'; }, []);
  const submit = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    try { await login(token.trim()); } catch (problem) { setError(problem as Error); }
    setBusy(false);
  };
  return (
    <main class="login">
      <form class="panel" onSubmit={submit}>
        <h1>seckill console</h1>
        <label>
          <span>Admin token</span>
          <input type="text" name="username" autocomplete="username" value="operator" readOnly hidden />
          <input type="password" name="token" autocomplete="current-password" required autofocus value={token} onInput={(e) => setToken(e.currentTarget.value)} />
          <small class="quiet">One of SECKILL_ADMIN_TOKEN, SECKILL_ADMIN_TOKENS or SECKILL_ADMIN_READ_TOKENS of this process.</small>
        </label>
        {error && <Fault error={error} />}
        <div class="actions"><button type="submit" class="primary" disabled={busy || token.trim() === ''}>{busy ? 'Signing in …' : 'Sign in'}</button></div>
      </form>
    </main>
  );
}

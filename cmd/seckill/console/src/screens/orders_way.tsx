// The steps of one order, with the time of each and how long after the one before.
import type { Way } from '../api';
import { clock, span } from '../words';

const names: Record<string, string> = {
  reserved: 'Reserved at the gate', logged: 'On disk in the order log', held: 'Held: dead letter', decided: 'Decided in the ledger',
  paid: 'Paid', 'refund-due': 'Refund is due', replaced: 'Replaced', cancelled: 'Cancelled', expired: 'Expired unpaid',
  operator: 'An operator', 'event-waiting': 'Event waits to be published',
};

export function Steps({ way }: { way: Way }) {
  let before: number | null = null;
  return (
    <ol class="way">
      {way.steps.map((s, i) => {
        const t = s.at ? Date.parse(s.at) : null;
        const since = t !== null && before !== null ? (t - before) / 1000 : null;
        if (t !== null) before = t;
        return (
          <li key={i} class={['held', 'expired', 'cancelled'].includes(s.step) ? 'bad-step' : 'done'}>
            <div>
              <h3>{names[s.step] ?? s.step}{s.actor && <span class="quiet"> {s.actor}</span>}</h3>
              {s.detail && <p class="quiet">{s.detail}</p>}
              {s.reason && <p>“{s.reason}”</p>}
            </div>
            <div class="when"><time dateTime={s.at ?? undefined}>{clock(s.at, true)}</time>{since !== null && since >= 0 && <><br />{i > 0 && `+${span(since)}`}</>}</div>
          </li>
        );
      })}
    </ol>
  );
}

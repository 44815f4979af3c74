-- Makes orders of sales that were closed more than eight days ago nobody's, and takes the
-- buyer out of what replays were asked. Variables of psql: schema, and buyer or activity
-- or both, which select the orders.
\set ON_ERROR_STOP on
\if :{?buyer}
\else
  \set buyer ''
\endif
\if :{?activity}
\else
  \set activity ''
\endif
set search_path to :"schema";
begin;
update orders o set user_id = 'forgotten ' || o.id, key = null
  from activities a
 where a.id = o.activity_id and a.state = 'closed' and a.updated_at < now() - interval '8 days'
   and o.user_id not like 'forgotten %'
   and (:'buyer' <> '' or :'activity' <> '')
   and (:'buyer' = '' or o.user_id = :'buyer')
   and (:'activity' = '' or o.activity_id = :'activity');
update replays set selection = selection - 'user'
 where (:'buyer' <> '' or :'activity' <> '')
   and (:'buyer' = '' or selection ->> 'user' = :'buyer')
   and (:'activity' = '' or selection ->> 'activity' = :'activity')
   and selection ? 'user';
insert into activity_log (actor, action, subject, reason)
values (current_user, 'forget buyers', 'orders', 'retention');
commit;

select a.id, a.title, a.state, a.starts_at, a.ends_at, a.payment_window, a.epoch, a.last_epoch, a.revision, a.updated_at, a.suspect,
       exists (select from stock_deltas d where d.activity_id = a.id and d.state = 'waiting'),
       s.sku_id, s.total, s.stock, s.limit_per_user, s.price, s.version
  from activities a left join skus s on s.activity_id = a.id
 where a.id = $1
 order by s.sku_id
